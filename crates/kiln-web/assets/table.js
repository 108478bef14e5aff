// A table whose rows are changed one by one. On a narrow screen each row is a card with the names of its columns.

import { h, keyed, setChildren } from './dom.js';

const PAGE = 200;

// columns: { name, cell: item => string or element, class? }
export function table(caption, columns, key) {
  const body = h('tbody');
  const head = h('tr', {}, columns.map((column) => h('th', { scope: 'col', class: column.class }, column.name)));
  const more = h('button', { type: 'button', class: 'more', hidden: true });
  const nothing = h('p', { class: 'quiet', hidden: true }, 'Nothing to show.');
  const element = h('div', { class: 'table' },
    h('table', {}, h('caption', { class: 'hidden' }, caption), h('thead', {}, head), body), nothing, more);
  let shown = PAGE;
  let last = [];
  const make = () => h('tr', {}, columns.map((column, index) => (
    h(index === 0 ? 'th' : 'td', { scope: index === 0 ? 'row' : null, class: column.class, 'data-name': column.name }, h('div')))));
  const update = (row, item) => columns.forEach((column, index) => {
    const content = column.cell(item);
    const cell = row.children[index];
    setChildren(cell.firstChild, [].concat(content ?? '').filter((part) => part !== '').map((part) => (
      part instanceof Node ? part : document.createTextNode(part))));
    cell.classList.toggle('empty', !cell.firstChild.hasChildNodes());
  });
  const show = (items) => {
    last = items;
    keyed(body, items.slice(0, shown), key, make, update);
    more.hidden = items.length <= shown;
    more.textContent = `Show ${Math.min(PAGE, items.length - shown)} more of ${items.length - shown}`;
    nothing.hidden = items.length > 0;
  };
  more.addEventListener('click', () => {
    shown += PAGE;
    show(last);
  });
  return { element, show };
}
