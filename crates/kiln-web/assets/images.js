// Images: where they come from, how old they are, what is in them, and who runs what.

import { h, setChildren, setText } from './dom.js';
import { ask, state } from './live.js';
import { difference } from './packages.js';
import { table } from './table.js';
import { ago, byName, clock, plural } from './words.js';

// Nodes name an image by its id or its name, as their cloud does.
const runs = (image) => [...state.nodes.values()].filter((node) => node.image === image.id || node.image === image.name);
const link = (image) => h('a', { href: `#/images/${encodeURIComponent(image.name)}` }, image.name);

export function images() {
  let known = null;
  const problem = h('p', { role: 'status', class: 'quiet' }, 'The cloud is being asked …');
  const list = table('Images', [
    { name: 'Image', cell: (image) => [link(image), image.is_test ? h('span', { class: 'quiet' }, ' for tests') : ''] },
    { name: 'Built', cell: (image) => (image.built ? [clock(image.built), h('p', { class: 'quiet' }, `${ago(image.built)} ago`)] : '') },
    { name: 'Nodes', class: 'number', cell: (image) => h('a', { href: `#/nodes?image=${encodeURIComponent(nameAtNodes(image))}` }, String(runs(image).length)) },
    { name: 'Built on', cell: (image) => image.descent.join(', on ') },
    { name: 'Adds', cell: (image) => image.software.join(', ') },
    { name: 'Packages', class: 'number', cell: (image) => String(image.packages) },
    { name: 'Size', class: 'number', cell: (image) => size(image) },
  ], (image) => image.id);
  list.element.hidden = true;
  const page = h('div', {}, h('h1', {}, 'Images'), problem, list.element);
  const show = () => {
    if (!known) return;
    list.element.hidden = false;
    // Rows whose nodes have changed are new rows.
    list.show(known.map((image) => ({ ...image })));
  };
  ask('/api/v1/images').then((answer) => {
    known = answer;
    setText(problem, '');
    if (state.overview) show();
  }).catch((error) => setText(problem, error.message));
  return { title: 'Images', element: page, show };
}

function nameAtNodes(image) {
  return runs(image)[0]?.image ?? image.name;
}

function size(image) {
  return image.size_mib ? `${(image.size_mib / 1024).toFixed(1)} GiB` : '';
}

export function image(name) {
  let detail = null;
  const head = h('div');
  const facts = h('dl', { class: 'facts' });
  const nodes = h('ul', { class: 'plain' });
  const other = h('select', { id: 'other' }, h('option', { value: '' }, 'Choose an image'));
  const differences = table('Differences', [
    { name: 'Package', cell: (row) => row.name },
    { name: 'Here', cell: (row) => row.here ?? '' },
    { name: 'There', cell: (row) => row.there ?? '' },
    { name: 'What', cell: (row) => (row.here && row.there ? 'another version' : row.here ? 'only here' : 'only there') },
  ], (row) => row.name);
  differences.element.hidden = true;
  const same = h('p', { class: 'quiet', role: 'status' });
  const search = h('input', { id: 'package', type: 'search' });
  const packages = table('Packages', [
    { name: 'Package', cell: (row) => row.name },
    { name: 'Version', cell: (row) => row.version },
  ], (row) => row.name);
  const page = h('div', { class: 'node' }, head,
    h('section', { class: 'card' }, h('h2', {}, 'What it is'), facts),
    h('section', { class: 'card' }, h('h2', {}, 'Who runs it'), nodes),
    h('section', { class: 'wide' }, h('h2', {}, 'Differences'),
      h('div', { class: 'filters' }, h('div', {}, h('label', { for: 'other' }, 'Compare with'), other)), same, differences.element),
    h('section', { class: 'wide' }, h('h2', {}, 'Packages'),
      h('div', { class: 'filters' }, h('div', {}, h('label', { for: 'package' }, 'Name'), search)), packages.element));
  setChildren(head, [h('p', { class: 'quiet' }, h('a', { href: '#/images' }, 'Images')), h('h1', {}, name)]);

  const listed = () => {
    const words = search.value.toLowerCase();
    packages.show(detail.packages.filter((row) => row.name.toLowerCase().includes(words)));
  };
  const compare = async () => {
    differences.element.hidden = true;
    setText(same, '');
    if (!other.value) return;
    try {
      const there = await ask(`/api/v1/images/${encodeURIComponent(other.value)}`);
      const rows = difference(detail.packages, there.packages);
      differences.element.hidden = rows.length === 0;
      setText(same, rows.length ? plural(rows.length, 'difference') : 'Both have the same packages in the same versions.');
      differences.show(rows);
    } catch (error) {
      setText(same, error.message);
    }
  };
  const show = () => {
    if (!detail) return;
    const { image: it } = detail;
    const fact = (label, value) => (value ? [h('dt', {}, label), h('dd', {}, value)] : []);
    setChildren(facts, [
      ...fact('Built', it.built ? `${clock(it.built)}, ${ago(it.built)} ago` : ''),
      ...fact('Built on', it.descent.join(', on ')),
      ...fact('Adds', it.software.join(', ')),
      ...fact('Size', size(it)),
      ...fact('Packages', String(it.packages)),
      ...fact('Id', it.id),
    ]);
    const groups = new Map();
    for (const node of runs(it)) groups.set(node.group, (groups.get(node.group) ?? 0) + 1);
    const rows = [...groups].sort((a, b) => byName(a[0], b[0])).map(([group, count]) => h('li', {},
      h('a', { href: `#/nodes?group=${encodeURIComponent(group)}&image=${encodeURIComponent(nameAtNodes(it))}`, class: 'count' }, plural(count, 'node')), ` of group ${group}`));
    setChildren(nodes, rows.length ? rows : [h('li', { class: 'quiet' }, 'No compute node runs it.')]);
  };
  search.addEventListener('input', () => { if (detail) listed(); });
  other.addEventListener('change', compare);
  Promise.all([ask(`/api/v1/images/${encodeURIComponent(name)}`), ask('/api/v1/images')]).then(([found, all]) => {
    detail = found;
    const others = all.filter((one) => one.id !== found.image.id);
    other.append(...others.map((one) => h('option', { value: one.name }, one.name)));
    listed();
    if (state.overview) show();
  }).catch((error) => setText(same, error.message));
  return { title: name, element: page, show };
}
