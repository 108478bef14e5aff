// Rollouts, live, with what an operator can do to them.

import { h, keyed, setChildren, setText } from './dom.js';
import { change, state } from './live.js';
import { rolloutPackages } from './rollout_packages.js';
import { table } from './table.js';
import { ago, clock, plural, span } from './words.js';

const STEPS = ['pending', 'submitted', 'draining', 'rebuilding', 'booting', 'checking', 'done'];

export function stateWord(rollout) {
  return rollout.state.replace('_', ' ');
}

// How far it is, as a bar with the same in words.
export function bar(rollout) {
  const share = (count) => `${(100 * count) / Math.max(1, rollout.total)}`;
  const words = `${rollout.done + rollout.skipped} of ${rollout.total} done, ${rollout.in_flight} in work, ${rollout.failed} failed`;
  const part = (name, count) => {
    const element = h('span', { class: name });
    element.style.width = `${share(count)}%`;
    return element;
  };
  return h('span', { class: 'progress' },
    h('span', { class: 'bar', role: 'img', 'aria-label': words },
      part('done', rollout.done + rollout.skipped), part('failed', rollout.failed), part('work', rollout.in_flight)),
    h('span', { class: 'quiet' }, words));
}

export function rollouts() {
  const list = table('Rollouts', [
    { name: 'Rollout', cell: (rollout) => h('a', { href: `#/rollouts/${rollout.id}` }, `Rollout ${rollout.id}`) },
    { name: 'Started', cell: (rollout) => clock(rollout.created) },
    { name: 'State', cell: (rollout) => rollout.message },
    { name: 'Progress', cell: (rollout) => bar(rollout) },
  ], (rollout) => rollout.id);
  const page = h('div', {}, h('h1', {}, 'Rollouts'), list.element);
  const show = () => list.show([...state.rollouts.values()].sort((a, b) => b.id - a.id));
  return { title: 'Rollouts', element: page, show };
}

const ORDERS = [
  { name: 'pause', label: 'Pause', when: (rollout) => rollout.state === 'running',
    text: 'No further nodes are started. Jobs that wait for their node are cancelled; what has begun goes on.' },
  { name: 'resume', label: 'Resume', when: (rollout) => rollout.state === 'paused', text: 'The next nodes have their turn again.' },
  { name: 'abort', label: 'Abort', when: (rollout) => rollout.is_open && rollout.state !== 'aborting',
    text: 'The rollout ends. Nodes that are being rebuilt are followed to their end; nothing is taken back.' },
];

export function rollout(id) {
  const head = h('div');
  const buttons = h('div', { class: 'buttons' });
  const answer = h('p', { role: 'status' });
  const list = table(`Nodes of rollout ${id}`, [
    { name: 'Node', cell: (node) => [h('a', { href: `#/nodes/${encodeURIComponent(node.node)}` }, node.node),
      node.position < (state.rollouts.get(id)?.canary ?? 0) ? h('span', { class: 'quiet' }, ' goes first') : ''] },
    { name: 'Step', cell: (node) => [steps(node.step), ` ${node.text}`] },
    { name: 'For', cell: (node) => ago(node.since) },
    { name: 'From', cell: (node) => node.previous ?? '' },
    { name: 'To', cell: (node) => node.target ?? '' },
  ], (node) => node.node);
  const packages = rolloutPackages();
  const page = h('div', {}, head, buttons, answer, list.element, packages.element);
  const act = async (order) => {
    if (!await confirmed(`${order.label} rollout ${id}?`, order.text, order.label)) return;
    try {
      const { rollout } = await change(`/api/v1/rollouts/${id}/${order.name}`);
      setText(answer, `Rollout ${id} is ${rollout.message}`);
    } catch (error) {
      setText(answer, error.message);
    }
  };
  const show = () => {
    const current = state.rollouts.get(id);
    if (!current) {
      setChildren(head, [h('h1', {}, `Rollout ${id}`), h('p', {}, 'There is no such rollout, or it is long over.')]);
      return;
    }
    const limits = [
      current.canary ? `${plural(current.canary, 'node')} first` : null,
      current.max_unavailable ? `${current.max_unavailable} at a time at most` : null,
      current.halt_after ? `stops after ${plural(current.halt_after, 'failure')}` : null,
    ].filter(Boolean).join(', ');
    setChildren(head, [h('p', { class: 'quiet' }, h('a', { href: '#/rollouts' }, 'Rollouts')),
      h('h1', {}, `Rollout ${id} `, h('span', { class: `tag r-${current.state}` }, stateWord(current))),
      h('p', {}, current.message), bar(current), h('p', { class: 'quiet' }, estimate(current)),
      h('p', { class: 'quiet' }, `Started ${clock(current.created)}${current.finished ? `, over ${clock(current.finished)}` : ''}. ${limits}`)]);
    const may = state.session.role === 'operator';
    const orders = ORDERS.filter((order) => may && order.when(current));
    keyed(buttons, orders, (order) => order.name, (order) => h('button', {
      type: 'button', id: `order-${order.name}`, class: order.name === 'abort' ? 'danger' : null, onclick: () => act(order),
    }, order.label));
    const nodes = [...state.rolloutNodes.values()].filter((node) => node.rollout === id).sort((a, b) => a.position - b.position);
    list.show(nodes);
    packages.show(nodes);
  };
  return { title: `Rollout ${id}`, element: page, show };
}

// When it is over, if it goes on as it went until the last node was done.
function estimate(rollout) {
  const left = rollout.pending + rollout.in_flight;
  const ends = [...state.rolloutNodes.values()].filter((node) => node.rollout === rollout.id && node.step === 'done')
    .map((node) => Date.parse(node.since));
  if (rollout.state !== 'running' || !left || !ends.length) return '';
  const last = Math.max(...ends);
  const end = Math.max(Date.now(), last + ((last - Date.parse(rollout.created)) / ends.length) * left);
  return `At this pace it is over at ${clock(end)}, in ${span((end - Date.now()) / 1000)}.`;
}

// The step as a row of marks; the word stands beside it.
function steps(step) {
  const at = STEPS.indexOf(step);
  return h('span', { class: `steps p-${step}`, 'aria-hidden': 'true' },
    STEPS.map((_, index) => h('i', { class: index <= at ? 'on' : null })));
}

function confirmed(title, text, label) {
  const dialog = document.getElementById('confirm');
  setText(document.getElementById('confirm-title'), title);
  setText(document.getElementById('confirm-text'), text);
  setText(document.getElementById('confirm-yes'), label);
  dialog.showModal();
  // Answers are taken as they are given. A dialog tells that it was closed only later, when the next question may be open.
  return new Promise((done) => {
    dialog.querySelector('form').onsubmit = (event) => done(event.submitter?.value === 'yes');
    dialog.oncancel = () => done(false);
  });
}
