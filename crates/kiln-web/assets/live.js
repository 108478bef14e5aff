// What the cluster is like: everything once, then what has changed.

export const state = {
  session: null,
  overview: null,
  nodes: new Map(),
  jobs: new Map(),
  rollouts: new Map(),
  rolloutNodes: new Map(),
  events: new Map(),
};

const MOST_EVENTS = 1000;
const listeners = new Set();
const signs = { status: () => {}, problem: () => {} };

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function onSign(handlers) {
  Object.assign(signs, handlers);
}

export async function ask(path, options = {}) {
  const answer = await fetch(path, options);
  if (answer.status === 401) {
    location.replace('/login#' + location.hash.slice(1));
    throw new Error('not logged in');
  }
  const content = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(content?.error ?? `kilnd answered ${answer.status}`);
  return content;
}

export function change(path) {
  return ask(path, { method: 'POST', headers: { 'X-Kiln-Csrf': state.session.csrf } });
}

function merge(map, items, key, gone = []) {
  for (const item of items) map.set(key(item), item);
  for (const name of gone) map.delete(name);
}

function take(message, isWhole) {
  const began = performance.now();
  if (isWhole) {
    for (const map of [state.nodes, state.jobs, state.rollouts, state.rolloutNodes]) map.clear();
  }
  if (message.overview) state.overview = message.overview;
  merge(state.nodes, message.nodes, (node) => node.name, message.nodes_gone);
  merge(state.jobs, message.jobs, (job) => job.id, message.jobs_gone);
  merge(state.rollouts, message.rollouts, (rollout) => rollout.id);
  merge(state.rolloutNodes, message.rollout_nodes, (node) => `${node.rollout}/${node.node}`);
  merge(state.events, message.events, (event) => event.id);
  const extra = state.events.size - MOST_EVENTS;
  if (extra > 0) for (const id of [...state.events.keys()].slice(0, extra)) state.events.delete(id);
  listeners.forEach((listener) => listener(message));
  // For the tests: how long a message took from its arrival to the page.
  performance.measure(isWhole ? 'kiln-picture' : 'kiln-change', { start: began, end: performance.now() });
}

export function connect() {
  const source = new EventSource('/api/v1/stream');
  source.addEventListener('picture', (event) => {
    signs.status('live');
    signs.problem(null);
    take(JSON.parse(event.data), true);
  });
  source.addEventListener('change', (event) => take(JSON.parse(event.data), false));
  source.addEventListener('problem', (event) => signs.problem(JSON.parse(event.data).error));
  source.addEventListener('error', () => {
    signs.status('connecting');
    // The session may be over, which an EventSource cannot tell from a connection that is.
    ask('/api/v1/session').catch(() => {});
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  });
}
