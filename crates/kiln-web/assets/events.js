// All that Kiln did by itself, and all that somebody had it do.

import { h } from './dom.js';
import { filters } from './filters.js';
import { ask, state } from './live.js';
import { table } from './table.js';
import { byName, clock } from './words.js';

export function events(query) {
  const older = new Map();
  const all = () => [...older.values(), ...state.events.values()];
  const choose = filters(query, [
    { name: 'text', label: 'Text', kind: 'search' },
    { name: 'node', label: 'Node', options: () => (
      [...new Set(all().map((event) => event.node))].filter(Boolean).sort(byName).map((node) => [node, node])) },
  ], () => show());
  const list = table('Events', [
    { name: 'Time', class: 'time', cell: (event) => h('time', { datetime: event.time }, clock(event.time)) },
    { name: 'Node', cell: (event) => (event.node ? h('a', { href: `#/nodes/${encodeURIComponent(event.node)}` }, event.node) : '') },
    { name: 'What', cell: (event) => event.what },
    { name: 'Outcome', cell: (event) => event.outcome },
    { name: 'Why', cell: (event) => event.why },
  ], (event) => event.id);
  const more = h('button', { type: 'button', class: 'more', onclick: () => load() }, 'Older events');
  const page = h('div', {}, h('h1', {}, 'Events'), choose.element, list.element, more);
  const load = async () => {
    const first = Math.min(...all().map((event) => event.id));
    const found = await ask(`/api/v1/events?before=${Number.isFinite(first) ? first : ''}&most=200`);
    found.forEach((event) => older.set(event.id, event));
    more.hidden = found.length === 0;
    show();
  };
  const show = () => {
    choose.refresh();
    const { text, node } = choose.values;
    const words = text.toLowerCase();
    const found = all().filter((event) => (
      (!node || event.node === node)
      && (!words || `${event.node} ${event.what} ${event.outcome} ${event.why}`.toLowerCase().includes(words))));
    list.show(found.sort((a, b) => b.id - a.id));
  };
  return { title: 'Events', element: page, show };
}
