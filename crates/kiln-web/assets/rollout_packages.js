// The packages that a rollout brings to its nodes.

import { h, setChildren } from './dom.js';
import { ask } from './live.js';
import { difference } from './packages.js';
import { table } from './table.js';
import { plural } from './words.js';

// Few rollouts have nodes of more images than this.
const MOST = 4;

// One part for each pair of images. They are asked for once, when the nodes are first known.
export function rolloutPackages() {
  const element = h('section', { hidden: true }, h('h2', { class: 'apart' }, 'Packages that it brings'));
  let isAsked = false;
  const show = (nodes) => {
    const pairs = new Map();
    for (const { previous, target } of nodes) {
      if (previous && target && previous !== target) pairs.set(`${previous} ${target}`, [previous, target]);
    }
    if (isAsked || !pairs.size) return;
    isAsked = true;
    element.hidden = false;
    for (const pair of [...pairs.values()].slice(0, MOST)) element.append(part(...pair));
  };
  return { element, show };
}

function part(previous, target) {
  const words = h('p', { role: 'status', class: 'quiet' }, 'The cloud is being asked …');
  const list = table(`Packages from ${previous} to ${target}`, [
    { name: 'Package', cell: (row) => row.name },
    { name: 'Before', cell: (row) => row.here ?? '' },
    { name: 'After', cell: (row) => row.there ?? '' },
    { name: 'What', cell: (row) => what(row) },
  ], (row) => row.name);
  list.element.hidden = true;
  const detail = (name) => ask(`/api/v1/images/${encodeURIComponent(name)}`);
  Promise.all([detail(previous), detail(target)]).then(([before, after]) => {
    const rows = difference(before.packages, after.packages);
    const count = (word) => rows.filter((row) => what(row) === word).length;
    setChildren(words, [`From ${before.image.name} to ${after.image.name}: `
      + (rows.length ? `${plural(rows.length, 'package')}: ${count('changed')} changed, ${count('added')} added, ${count('removed')} removed.`
        : 'both have the same packages in the same versions.')].map((text) => document.createTextNode(text)));
    list.element.hidden = rows.length === 0;
    list.show(rows);
  }).catch((error) => setChildren(words, [document.createTextNode(`Packages are not known: ${error.message}`)]));
  return h('div', {}, words, list.element);
}

function what(row) {
  if (row.here === undefined) return 'added';
  return row.there === undefined ? 'removed' : 'changed';
}
