// How control and login nodes are: each service, disks, certificates, the clock.

import { h, keyed, setChildren, setText } from './dom.js';
import { ask } from './live.js';
import { ago, clock, plural } from './words.js';

const EVERY = 10000;

export function health() {
  let asked = 0;
  const status = h('p', { class: 'quiet', role: 'status' }, 'kilnd is being asked …');
  const nodes = h('div', { class: 'health' });
  const page = h('div', {}, h('h1', {}, 'Health'), status, nodes);
  const show = () => {
    if (Date.now() - asked <= EVERY) return;
    asked = Date.now();
    ask('/api/v1/health').then((answer) => {
      setText(status, words(answer.nodes));
      keyed(nodes, answer.nodes, (node) => node.name, () => h('section', { class: 'card' }), (card, node) => setChildren(card, content(node)));
    }).catch((error) => setText(status, error.message));
  };
  return { title: 'Health', element: page, show };
}

function words(nodes) {
  if (!nodes.length) return 'No node reports on its services yet: `kiln configure` has them do so.';
  const broken = nodes.flatMap((node) => node.services).filter((service) => service.problems.length).length;
  const stale = nodes.filter((node) => node.is_stale).length;
  const parts = [broken ? `${plural(broken, 'service')} with a problem` : 'All services that were reported work'];
  if (stale) parts.push(`${plural(stale, 'node')} without a report of the present`);
  return `${parts.join(', ')}.`;
}

function content(node) {
  const facts = [
    ...fact('Clock', node.role === 'control' ? '' : clockWords(node.clock_ahead)),
    ...node.disks.flatMap((disk) => fact(`Disk ${disk.path}`, diskWords(disk), disk.is_nearly_full)),
    ...node.certificates.flatMap((one) => fact(`Certificate of ${one.name}`,
      one.ends ? `good until ${day(one.ends)}${one.ends_soon ? ', which is soon' : ''}` : 'cannot be read', one.ends_soon)),
  ];
  return [
    h('h2', {}, `${node.name} `, node.name === node.role ? null : h('span', { class: 'quiet' }, node.role)),
    node.is_stale ? h('p', { class: 'needs n-administrator' }, node.reported
      ? `The last report is ${ago(node.reported)} old: how things are now is not known.` : 'There is no report.') : null,
    node.problem ? h('p', { class: 'quiet' }, node.problem) : null,
    node.reported && !node.is_stale ? h('p', { class: 'quiet' }, `Reported at ${clock(node.reported)}.`) : null,
    h('ul', { class: 'plain services' }, node.services.map((service) => serviceItem(service, node.is_stale))),
    facts.length ? h('dl', { class: 'facts' }, facts) : null,
  ];
}

function fact(label, text, isBad) {
  return text ? [h('dt', {}, label), h('dd', { class: isBad ? 'needs n-owner' : null }, text)] : [];
}

function serviceItem(service, isStale) {
  const isOk = service.problems.length === 0;
  const word = isStale ? 'not known' : isOk ? 'works' : 'does not work';
  const mark = isStale ? '?' : isOk ? '✓' : '!';
  return h('li', { class: isStale ? 's-note' : isOk ? 's-good' : 's-broken' },
    h('span', { class: 'mark', 'aria-hidden': 'true' }, mark),
    h('div', {}, h('p', {}, h('b', {}, service.name), ` ${word}`),
      service.problems.map((problem) => h('p', {}, problem)),
      service.units.map((unit) => h('p', { class: 'quiet' }, `${unit.name}: ${unit.state}${unit.since ? ` since ${clock(unit.since)}` : ''}`)),
      service.units.filter((unit) => unit.journal.length).map((unit) => h('pre', { tabindex: '0', 'aria-label': `Journal of ${unit.name}` }, unit.journal.join('\n')))));
}

function clockWords(ahead) {
  if (ahead === null) return '';
  if (Math.abs(ahead) <= 1) return 'as on control';
  return `${Math.abs(ahead)} s ${ahead > 0 ? 'ahead of' : 'behind'} control's`;
}

function diskWords(disk) {
  const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(bytes < 2 ** 33 ? 1 : 0)} GiB`;
  const used = disk.bytes ? Math.round((100 * (disk.bytes - disk.free_bytes)) / disk.bytes) : 0;
  const few = disk.files && disk.free_files * 20 < disk.files ? `, ${disk.free_files} files left` : '';
  return `${used} % full, ${gib(disk.free_bytes)} of ${gib(disk.bytes)} free${few}`;
}

function day(time) {
  return new Date(time).toISOString().slice(0, 10);
}
