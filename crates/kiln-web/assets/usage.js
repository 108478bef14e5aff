// The queue of the last day, and the hours that instances have run: on the overview and on the page of elastic groups.

import { figure, range } from './chart.js';
import { h, setChildren, setText } from './dom.js';
import { ask } from './live.js';
import { plural } from './words.js';

const EVERY = 60000;

// Asks once a minute while it is shown.
export function usage() {
  let seen = null;
  let asked = 0;
  const status = h('p', { class: 'quiet', role: 'status' });
  const queue = h('div');
  const used = h('div', { class: 'usage' });
  const draw = () => {
    setChildren(queue, lines(seen.queue));
    setChildren(used, seen.usage.length ? [hours(seen.usage)] : [h('p', { class: 'quiet' }, 'No instance has been seen yet.')]);
  };
  const show = () => {
    if (Date.now() - asked <= EVERY) return;
    asked = Date.now();
    ask('/api/v1/usage').then((answer) => {
      seen = answer;
      setText(status, '');
      draw();
    }).catch((error) => setText(status, error.message));
  };
  return {
    queue: h('section', { class: 'card chart' }, h('h2', {}, 'Jobs, last day'), status, queue),
    usage: h('section', { class: 'card' }, h('h2', {}, 'Hours of instances by group'), used),
    show,
  };
}

export function lines(queue) {
  if (queue.length < 2) return [h('p', { class: 'quiet' }, 'kilnd counts jobs every minute, and has only begun.')];
  const line = (name, word, value) => {
    const points = queue.map((length) => [Date.parse(length.time) / 1000, value(length)]).reverse();
    const [least, most] = range(points);
    return figure(`${plural(points[0][1], 'job')} ${word}, between ${least} and ${most} in the last day`, points, name);
  };
  return [line('nodes', 'running', (length) => length.running), line('queue', 'waiting', (length) => length.waiting)];
}

function hours(usage) {
  const hasCost = usage.some((row) => row.month.cost_millionths !== null);
  const number = (value, digits) => value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const cell = (name, used) => h('td', { class: 'number', 'data-name': name }, h('div', {},
    `${number(used.seconds / 3600, 1)} h`,
    hasCost ? h('p', { class: 'quiet' }, `cost ${number((used.cost_millionths ?? 0) / 1e6, 2)}`) : ''));
  const rows = usage.map((row) => h('tr', {}, h('th', { scope: 'row', 'data-name': 'Group' }, h('div', {}, row.group)),
    cell('24 hours', row.day), cell('7 days', row.week), cell('30 days', row.month)));
  return h('table', {}, h('caption', { class: 'hidden' }, 'Hours of instances by group'),
    h('thead', {}, h('tr', {}, ['Group', '24 hours', '7 days', '30 days'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, rows));
}
