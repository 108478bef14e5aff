// All nodes with filters, and one node with its life.

import { h, setChildren, setText } from './dom.js';
import { jobLink } from './history.js';
import { ask, state } from './live.js';
import { shares } from './shares.js';
import { table } from './table.js';
import { filters } from './filters.js';
import { KINDS, ago, byName, clock, plural } from './words.js';

export function kindMark(kind) {
  const { letter, name } = KINDS[kind] ?? KINDS.unknown;
  return h('span', { class: 'kind' }, h('span', { class: `cell k-${kind}`, 'aria-hidden': 'true' }, letter), ` ${name}`);
}

const nodeLink = (name) => h('a', { href: `#/nodes/${encodeURIComponent(name)}` }, name);

export function nodes(query) {
  const choose = filters(query, [
    { name: 'text', label: 'Name or reason', kind: 'search' },
    { name: 'kind', label: 'State', options: () => Object.entries(KINDS).map(([kind, { name }]) => [kind, name]) },
    { name: 'group', label: 'Group', options: () => values((node) => [node.group]) },
    { name: 'partition', label: 'Partition', options: () => values((node) => node.partitions) },
    { name: 'image', label: 'Image', options: () => values((node) => (node.image ? [node.image] : [])) },
  ], () => show());
  const count = h('p', { class: 'quiet', role: 'status' });
  const list = table('Compute nodes', [
    { name: 'Node', cell: (node) => nodeLink(node.name) },
    { name: 'State', cell: (node) => kindMark(node.kind) },
    { name: 'Group', cell: (node) => node.group },
    { name: 'Cores', class: 'number', cell: (node) => `${node.cpus_allocated} / ${node.cpus}` },
    { name: 'Image', cell: (node) => node.image ?? '' },
    { name: 'Remark', cell: (node) => node.finding?.text ?? node.reason ?? '' },
  ], (node) => node.name);
  const page = h('div', {}, h('h1', {}, 'Nodes'), choose.element, count, list.element);
  const show = () => {
    choose.refresh();
    const { text, kind, group, partition, image } = choose.values;
    const words = text.toLowerCase();
    const wanted = [...state.nodes.values()].filter((node) => (
      (!kind || node.kind === kind) && (!group || node.group === group) && (!image || node.image === image)
      && (!partition || node.partitions.includes(partition))
      && (!words || `${node.name} ${node.reason ?? ''} ${node.finding?.text ?? ''}`.toLowerCase().includes(words))));
    wanted.sort((a, b) => byName(a.name, b.name));
    setText(count, plural(wanted.length, 'node'));
    list.show(wanted);
  };
  return { title: 'Nodes', element: page, show };
}

function values(of) {
  const all = new Set();
  for (const node of state.nodes.values()) of(node).forEach((value) => all.add(value));
  return [...all].sort(byName).map((value) => [value, value]);
}

export function node(name) {
  const head = h('div');
  const facts = h('dl', { class: 'facts' });
  const words = h('div');
  const jobs = h('ul', { class: 'plain' });
  const requests = h('ul', { class: 'plain' });
  const life = h('ol', { class: 'timeline' });
  const consoles = h('div');
  const whose = shares();
  const page = h('div', { class: 'node' }, head,
    h('section', { class: 'card' }, h('h2', {}, 'What Kiln says'), words, requests),
    h('section', { class: 'card' }, h('h2', {}, 'Facts'), facts),
    h('section', { class: 'card' }, h('h2', {}, 'Jobs here'), jobs),
    h('section', { class: 'card wide' }, h('h2', {}, 'Whose cores, memory and devices'), whose.element),
    h('section', { class: 'card' }, h('h2', {}, 'Life'), life),
    h('section', { class: 'card wide' }, h('h2', {}, 'Console'), consoles));
  let seen = null;
  let asked = null;
  let shared = null;

  const load = async () => {
    const detail = await ask(`/api/v1/nodes/${encodeURIComponent(name)}`);
    setChildren(words, [h('p', {}, detail.verdict), h('p', {}, detail.next)]);
    setChildren(requests, detail.requests.map((request) => h('li', {},
      `${request.kind}, ${request.state}, asked ${ago(request.received)} ago`, request.error ? `: ${request.error}` : '')));
    setChildren(life, detail.timeline.map((event) => h('li', {},
      h('time', { datetime: event.time }, clock(event.time)), h('div', {}, h('b', {}, event.what), `: ${event.outcome}`,
        event.why ? h('p', { class: 'quiet' }, event.why) : null))));
    if (!detail.timeline.length) setChildren(life, [h('li', { class: 'quiet' }, 'Kiln has done nothing to it yet.')]);
    setChildren(consoles, detail.consoles.map((console) => h('figure', {},
      h('figcaption', {}, `The end of the console of ${console.instance}`), h('pre', { tabindex: '0' }, console.lines.join('\n')))));
    if (!detail.consoles.length) setChildren(consoles, [h('p', { class: 'quiet' }, 'It has no console.')]);
  };

  const show = () => {
    const current = state.nodes.get(name);
    if (!current) {
      setChildren(head, [h('h1', {}, name), h('p', {}, 'This is not a compute node of the cluster.')]);
      return;
    }
    setChildren(head, [h('p', { class: 'quiet' }, h('a', { href: '#/nodes' }, 'Nodes')),
      h('h1', {}, `${name} `, kindMark(current.kind))]);
    const fact = (term, value) => (value ? [h('dt', {}, term), h('dd', {}, value)] : []);
    setChildren(facts, [
      ...fact('Slurm says', current.state ?? 'nothing'),
      ...fact('Reason', current.reason && `${current.reason} (${current.reason_by ?? 'unknown'})`),
      ...fact('Group', `${current.group}${current.elastic ? ', elastic' : ''}`),
      ...fact('Partitions', current.partitions.join(', ')),
      ...fact('Cores', `${current.cpus_allocated} of ${current.cpus} in use`),
      ...fact('Memory', current.memory_mib ? `${Math.round(current.memory_mib / 1024)} GiB` : null),
      ...fact('Image', current.image),
      ...fact('Instance', current.instance),
      ...fact('Address', current.address),
      ...fact('Booted', current.booted && clock(current.booted)),
    ]);
    const here = [...state.jobs.values()].filter((job) => job.nodelist && inList(job.nodelist, name));
    setChildren(jobs, here.length
      ? here.map((job) => h('li', {}, h('b', {}, jobLink(job.id)), ` ${job.name}, of ${job.user}, since ${clock(job.start)}`))
      : [h('li', { class: 'quiet' }, 'No job runs here.')]);
    // Slurm is asked only when jobs have come or gone.
    const jobsMark = `${current.cpus_allocated} ${here.map((job) => job.id)}`;
    if (shared !== jobsMark) {
      shared = jobsMark;
      ask(`/api/v1/nodes/${encodeURIComponent(name)}/shares`).then(whose.show).catch((error) => whose.problem(error.message));
    }
    // What is asked for takes a moment, so only when something has happened.
    const newest = [...state.events.values()].filter((event) => event.node === name).pop()?.id;
    const mark = `${current.kind} ${newest}`;
    if (seen !== current && asked !== mark) {
      seen = current;
      asked = mark;
      load().catch((error) => setChildren(words, [h('p', {}, error.message)]));
    }
  };
  return { title: name, element: page, show };
}

// Whether a node is in a list such as `a-[0-3,7],b-1`.
export function inList(list, name) {
  const parts = list.match(/(?:[^,[]|\[[^\]]*\])+/g) ?? [];
  return parts.some((part) => {
    const ranges = part.match(/^(.*?)\[([^\]]*)\](.*)$/);
    if (!ranges) return part === name;
    const [, before, inside, after] = ranges;
    if (!name.startsWith(before)) return false;
    return inside.split(',').some((range) => {
      const [from, to = from] = range.split('-');
      const rest = name.slice(before.length);
      const number = rest.slice(0, /^\d*/.exec(rest)[0].length);
      if (!number || Number(number) < Number(from) || Number(number) > Number(to)) return false;
      const tail = rest.slice(number.length);
      return after.includes('[') ? inList(after, tail) : tail === after;
    });
  });
}
