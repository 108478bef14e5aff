// What Slurm allows and how much of it is in use, and how its scheduler does.

import { h, setChildren, setText } from './dom.js';
import { jobPages } from './history.js';
import { ask } from './live.js';
import { table } from './table.js';
import { clock } from './words.js';

// A page that asks once, when it is opened.
function asked(title, tab, path, draw) {
  const status = h('p', { class: 'quiet', role: 'status' }, 'Slurm is being asked …');
  const content = h('div');
  const page = h('div', {}, h('h1', {}, 'Jobs'), jobPages(tab), status, content);
  ask(path).then((answer) => {
    setText(status, '');
    setChildren(content, draw(answer, status));
  }).catch((error) => setText(status, error.message));
  return { title, element: page, show: () => {} };
}

function listed(name, columns, key, items) {
  const list = table(name, columns, key);
  list.show(items);
  return h('section', { class: 'apart' }, h('h2', {}, name), list.element);
}

export function limits() {
  return asked('Limits', 'Limits', '/api/v1/limits', (seen, status) => {
    setText(status, seen.problems.map((problem) => `Not known: ${problem}.`).join(' '));
    const rules = seen.qos.flatMap((qos) => (qos.rules.length ? qos.rules : [null]).map((rule, index) => ({ qos, rule, index })));
    return [
      listed('QOS', [
        { name: 'QOS', cell: ({ qos, index }) => [qos.name, index === 0 && qos.priority ? h('p', { class: 'quiet' }, `priority ${qos.priority}`) : ''] },
        { name: 'Jobs', class: 'number', cell: ({ qos, index }) => (index === 0 ? `${qos.running} running, ${qos.submitted - qos.running} waiting` : '') },
        { name: 'For', cell: ({ rule }) => rule?.who ?? '' },
        { name: 'At most', cell: ({ rule }) => (rule ? `${rule.limit} ${rule.what}` : 'no limit') },
        { name: 'In use', cell: ({ rule }) => (rule?.used ? [rule.used, rule.is_reached ? h('b', { class: 'v-watch' }, ' reached') : ''] : '') },
        { name: 'Slurm says', cell: ({ rule }) => (rule ? h('code', {}, rule.name) : '') },
      ], ({ qos, index }) => `${qos.name} ${index}`, rules),
      listed('Reservations', [
        { name: 'Reservation', cell: (one) => one.name },
        { name: 'Now', cell: (one) => (one.is_active ? 'active' : 'to come') },
        { name: 'From', class: 'time', cell: (one) => clock(one.start) },
        { name: 'To', class: 'time', cell: (one) => clock(one.end) },
        { name: 'Nodes', cell: (one) => [one.nodes, h('p', { class: 'quiet' }, `${one.cores} cores`)] },
        { name: 'What it means', cell: (one) => [one.text, one.flags ? h('p', { class: 'quiet' }, one.flags) : ''] },
      ], (one) => one.name, seen.reservations),
      listed('Licences', [
        { name: 'Licence', cell: (one) => one.name },
        { name: 'In use', class: 'number', cell: (one) => [`${one.used} of ${one.total}`, one.free === 0 ? h('b', { class: 'v-watch' }, ' all in use') : ''] },
        { name: 'Free', class: 'number', cell: (one) => String(one.free) },
        { name: 'Reserved', class: 'number', cell: (one) => (one.reserved ? String(one.reserved) : '') },
        { name: 'Counted by', cell: (one) => (one.is_remote ? 'a server of licences' : 'Slurm') },
      ], (one) => one.name, seen.licenses),
    ];
  });
}

const VERDICTS = { fine: 'fine', watch: 'worth watching', wrong: 'wrong', count: '' };

export function scheduler() {
  return asked('Scheduler', 'Scheduler', '/api/v1/scheduler', (seen) => [
    h('p', {}, h('b', { class: `v-${seen.verdict}` }, seen.summary)),
    ...seen.parts.map((part) => {
      const list = table(part.name, [
        { name: 'Figure', cell: (one) => one.name },
        { name: 'Value', class: 'number', cell: (one) => (one.unit ? time(one.value) : String(one.value)) },
        { name: 'Verdict', cell: (one) => h('span', { class: `v-${one.verdict}` }, VERDICTS[one.verdict]) },
        { name: 'What it means', cell: (one) => [one.meaning, one.advice ? h('p', {}, one.advice) : ''] },
      ], (one) => one.name);
      list.show(part.figures);
      return h('section', { class: 'apart' }, h('h2', {}, part.name), h('p', { class: 'quiet' }, part.meaning), list.element);
    }),
  ]);
}

function time(microseconds) {
  if (microseconds < 1000) return `${microseconds} µs`;
  if (microseconds < 1000000) return `${(microseconds / 1000).toFixed(1)} ms`;
  return `${(microseconds / 1000000).toFixed(1)} s`;
}
