// All nodes of a group at a glance: a cell each, coloured and lettered. One stop for the tab key; arrows move within.

import { h, keyed } from './dom.js';
import { KINDS } from './words.js';

export function grid(label) {
  const list = h('ul', { class: 'grid', 'aria-label': label });
  list.addEventListener('keydown', (event) => move(list, event));
  list.addEventListener('focusin', (event) => {
    for (const cell of list.querySelectorAll('a[tabindex="0"]')) cell.tabIndex = -1;
    event.target.tabIndex = 0;
  });
  return {
    element: list,
    show(nodes) {
      keyed(list, nodes, (node) => node.name, make, update);
      if (!list.querySelector('a[tabindex="0"]')) list.querySelector('a')?.setAttribute('tabindex', '0');
    },
  };
}

function make(node) {
  return h('li', {}, h('a', { href: `#/nodes/${encodeURIComponent(node.name)}`, tabindex: '-1' }));
}

function update(item, node) {
  const cell = item.firstChild;
  const kind = KINDS[node.kind] ?? KINDS.unknown;
  const label = `${node.name}: ${kind.name}${node.finding ? `, ${node.finding.text}` : ''}`;
  if (cell.title === label) return;
  cell.className = `cell k-${node.kind}${node.finding ? ' found' : ''}`;
  cell.textContent = kind.letter;
  cell.title = label;
  cell.setAttribute('aria-label', label);
}

function move(list, event) {
  const cells = [...list.querySelectorAll('a')];
  const at = cells.indexOf(document.activeElement);
  if (at < 0) return;
  const top = cells[0].offsetTop;
  const columns = Math.max(1, cells.findIndex((cell) => cell.offsetTop > top));
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  const to = event.key === 'Home' ? 0 : event.key === 'End' ? cells.length - 1 : at + step;
  if (Number.isNaN(to) || !cells[to]) return;
  event.preventDefault();
  cells[to].focus();
}
