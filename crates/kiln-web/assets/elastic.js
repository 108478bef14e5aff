// Nodes that come and go with the queue: how many, how long each took to come, and what kept them.

import { DAY, figure, range } from './chart.js';
import { h, setChildren, setText } from './dom.js';
import { lines, usage } from './usage.js';
import { ask, state } from './live.js';
import { table } from './table.js';
import { ago, clock, plural, span } from './words.js';

const EVERY = 15000;

export function elastic() {
  let seen = null;
  let asked = 0;
  const groups = h('div', { class: 'overview' });
  const chart = h('div');
  const past = usage();
  const status = h('p', { class: 'quiet', role: 'status' });
  const starts = table('Starts of the last day', [
    { name: 'Node', cell: (row) => h('a', { href: `#/nodes/${encodeURIComponent(row.node)}` }, row.node) },
    { name: 'Asked for', cell: (row) => [clock(row.received), row.jobs ? h('p', { class: 'quiet' }, `for job ${row.jobs}`) : ''] },
    { name: 'Time until it was there', cell: parts },
    { name: 'State', cell: (row) => [row.state, row.error ? h('p', { class: 'quiet' }, row.error) : ''] },
  ], (row) => `${row.node} ${row.received}`);
  const page = h('div', {}, h('h1', {}, 'Elastic groups'), status, groups,
    h('section', { class: 'card chart' }, h('h2', {}, 'Nodes and the queue, last day'), chart), past.usage,
    h('h2', { class: 'apart' }, 'Starts of the last day, newest first'), starts.element);

  const show = () => {
    past.show();
    if (Date.now() - asked > EVERY) {
      asked = Date.now();
      ask('/api/v1/elastic').then((answer) => {
        seen = answer;
        draw();
      }).catch((error) => setText(status, error.message));
    }
    if (seen) draw();
  };
  const draw = () => {
    setText(status, seen.groups.length ? '' : 'No group of this cluster is elastic.');
    setChildren(groups, seen.groups.map(groupCard));
    setChildren(chart, [...seen.groups.map((group) => line(group, seen.requests)), ...lines(seen.queue)]);
    starts.show(seen.requests.filter((row) => row.kind === 'resume'));
  };
  return { title: 'Elastic groups', element: page, show };
}

const members = (group) => [...state.nodes.values()].filter((node) => node.group === group);

function groupCard(group) {
  const nodes = members(group.name);
  const up = nodes.filter((node) => node.kind !== 'off' && node.kind !== 'booting').length;
  const coming = nodes.filter((node) => node.kind === 'booting').length;
  const partitions = new Set(nodes.flatMap((node) => node.partitions));
  const waiting = [...state.jobs.values()].filter((job) => job.waiting && job.partition.split(',').some((name) => partitions.has(name))).length;
  const isPaused = group.paused_until && Date.parse(group.paused_until) > Date.now();
  const trouble = group.failures > 0 || isPaused;
  return h('section', { class: 'card' }, h('h2', {}, group.name),
    h('p', {}, h('b', {}, `${up} of ${group.nodes}`), ` nodes are there, ${coming} coming. ${plural(waiting, 'job')} waiting.`),
    isPaused ? h('p', { class: 'needs n-administrator' }, `Paused until ${clock(group.paused_until)}: the cloud is not asked before.`) : null,
    trouble ? h('p', { class: 'quiet' }, `${plural(group.failures, 'failure')} in a row, the last ${ago(group.last_failure)} ago: ${group.problem}`)
      : h('p', { class: 'quiet' }, 'The cloud has refused nothing lately.'));
}

// From how many there are now, back through what was asked.
function line(group, requests) {
  const now = Date.now() / 1000;
  const there = members(group.name).filter((node) => node.kind !== 'off' && node.kind !== 'booting').length;
  const changes = requests.filter((row) => row.group === group.name && row.state === 'done' && row.finished && !row.error)
    .map((row) => ({ at: Date.parse(row.finished) / 1000, by: row.kind === 'resume' ? 1 : -1 }))
    .filter((change) => change.at > now - DAY).sort((a, b) => b.at - a.at);
  let count = there;
  const points = [[now, count]];
  for (const { at, by } of changes) {
    points.push([at, count]);
    count = Math.max(0, count - by);
    points.push([at, count]);
  }
  points.push([now - DAY, count]);
  const [least, most] = range(points);
  return figure(`${group.name}: ${plural(there, 'node')} now, between ${least} and ${most} in the last day`, points, 'nodes');
}

// In the queue, in Kiln, at the cloud, from its boot until slurmd ran: as a bar with the same in words.
function parts(row) {
  const time = (text) => (text ? Date.parse(text) / 1000 : null);
  const [asked, began, finished] = [time(row.received), time(row.began), time(row.finished)];
  const node = state.nodes.get(row.node);
  // A later boot is not of this start.
  const recent = (at) => (finished && at && at > asked && at - asked < 3600 ? at : null);
  const [booted, joined] = [recent(time(node?.booted)), recent(time(node?.slurmd_started))];
  // The cloud's answer may come before the machine runs.
  const running = finished && Math.max(finished, booted ?? 0);
  const steps = [
    ['slurm', 'in the queue', submitted(row, asked)],
    ['queue', 'in Kiln', began ? began - asked : null],
    ['cloud', 'at the cloud', began && running ? running - began : null],
    ['boot', 'to boot and be configured', joined && running ? Math.max(0, joined - running) : null],
  ].filter(([, , seconds]) => seconds !== null);
  if (!steps.length) return 'not begun';
  const total = Math.max(1, steps.reduce((sum, [, , seconds]) => sum + seconds, 0));
  const bar = h('span', { class: 'bar', 'aria-hidden': 'true' }, steps.map(([name, , seconds]) => {
    const part = h('span', { class: `t-${name}` });
    part.style.width = `${(100 * seconds) / total}%`;
    return part;
  }));
  return h('span', { class: 'progress' }, bar,
    h('span', { class: 'quiet' }, steps.map(([, name, seconds]) => `${span(seconds)} ${name}`).join(', ')));
}

// How long the first of its jobs had waited, as far as it is still in the queue.
function submitted(row, asked) {
  const times = (row.jobs ?? '').split(',').map((id) => Date.parse(state.jobs.get(id)?.submitted ?? '') / 1000)
    .filter((at) => at <= asked);
  return times.length ? asked - Math.min(...times) : null;
}
