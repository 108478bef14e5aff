// Which cores, memory and GPUs of a node are whose, drawn. Each job has a letter, a colour and a pattern; the table says the same.

import { h, setChildren } from './dom.js';
import { jobLink, size } from './history.js';
import { table } from './table.js';
import { plural } from './words.js';

const KINDS = 8;
const letterOf = (index) => (index < 26 ? String.fromCharCode(65 + index) : String(index + 1));
const shade = (index) => (index < 0 ? 'free' : `p-${index % KINDS}`);
const one = (number, index, what) => h('span', { class: `core ${shade(index)}`, title: what }, index < 0 ? '' : letterOf(index));

export function shares() {
  const picture = h('div', { class: 'shares' });
  const list = table('Jobs on this node and what they have', [
    { name: 'Job', cell: (job) => [h('span', { class: `core ${shade(job.index)}`, 'aria-hidden': 'true' }, letterOf(job.index)), ' ', jobLink(job.job)] },
    { name: 'Name', cell: (job) => job.name },
    { name: 'User', cell: (job) => job.user },
    { name: 'Cores', class: 'number', cell: (job) => (job.cpus.length ? `${job.cpus.length}: ${ranges(job.cpus)}` : '') },
    { name: 'Memory', class: 'number', cell: (job) => size(job.memory_mib) },
    { name: 'Devices', cell: (job) => job.devices.map(device).join(', ') },
  ], (job) => job.job);
  const nothing = h('p', { class: 'quiet' }, 'Slurm is being asked …');
  const element = h('div', {}, nothing, picture, list.element);
  list.element.hidden = true;

  const show = (seen) => {
    const jobs = seen.jobs.map((job, index) => ({ ...job, index }));
    const taken = jobs.reduce((sum, job) => sum + job.cpus.length, 0);
    nothing.textContent = jobs.length
      ? `${plural(jobs.length, 'job')} with ${taken} of ${plural(seen.cpus, 'core')}.` : 'No job has anything of it.';
    setChildren(picture, [cores(seen, jobs), memory(seen, jobs), ...seen.devices.map((kind) => devices(kind, jobs))]);
    list.element.hidden = jobs.length === 0;
    list.show(jobs);
  };
  const problem = (words) => { nothing.textContent = words; };
  return { element, show, problem };
}

function figure(name, words, cells) {
  return h('figure', {}, h('figcaption', {}, name), h('div', { class: 'cores', role: 'img', 'aria-label': `${name}: ${words}` }, cells));
}

function cores(seen, jobs) {
  const owner = new Map(jobs.flatMap((job) => job.cpus.map((cpu) => [cpu, job])));
  const cells = Array.from({ length: seen.cpus }, (_, cpu) => {
    const job = owner.get(cpu);
    return one(cpu, job ? job.index : -1, job ? `core ${cpu}: job ${job.job} of ${job.user}` : `core ${cpu}: free`);
  });
  const words = jobs.map((job) => `job ${job.job} has ${ranges(job.cpus)}`).join(', ');
  return figure('Cores', words || 'all are free', cells);
}

function memory(seen, jobs) {
  const parts = jobs.filter((job) => job.memory_mib > 0).map((job) => {
    const part = h('span', { class: shade(job.index), title: `job ${job.job}: ${size(job.memory_mib)}` }, letterOf(job.index));
    part.style.width = `${(100 * job.memory_mib) / Math.max(1, seen.memory_mib)}%`;
    return part;
  });
  const used = jobs.reduce((sum, job) => sum + job.memory_mib, 0);
  const words = jobs.map((job) => `job ${job.job} has ${size(job.memory_mib)}`).join(', ');
  return h('figure', {}, h('figcaption', {}, `Memory: ${size(used)} of ${size(seen.memory_mib)}`),
    h('div', { class: 'memory', role: 'img', 'aria-label': `Memory: ${words || 'all is free'}` }, parts));
}

const nameOf = (kind) => (kind.name === 'gpu' ? 'GPUs' : kind.name) + (kind.kind ? ` (${kind.kind})` : '');
const device = (own) => `${own.count} ${own.name === 'gpu' ? 'GPU' : own.name}${own.kind ? ` (${own.kind})` : ''}${own.indexes.length ? `: ${ranges(own.indexes)}` : ''}`;

function devices(kind, jobs) {
  // Those that Slurm only counts have no places of their own, and are shown in the order of the jobs.
  const owner = new Map();
  let next = 0;
  for (const job of jobs) {
    for (const own of job.devices.filter((d) => d.name === kind.name && (!kind.kind || !d.kind || d.kind === kind.kind))) {
      const places = own.indexes.length ? own.indexes : Array.from({ length: own.count }, () => next++);
      places.forEach((place) => owner.set(place, job));
    }
  }
  const cells = Array.from({ length: Math.min(kind.count, 256) }, (_, place) => {
    const job = owner.get(place);
    return one(place, job ? job.index : -1, job ? `${kind.name} ${place}: job ${job.job} of ${job.user}` : `${kind.name} ${place}: free`);
  });
  const words = [...owner].map(([place, job]) => `${place} is job ${job.job}'s`).join(', ');
  return figure(nameOf(kind), words || 'all are free', cells);
}

// 0-3, 7
export function ranges(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at < sorted.length;) {
    let last = at;
    while (last + 1 < sorted.length && sorted[last + 1] === sorted[last] + 1) last += 1;
    parts.push(last > at ? `${sorted[at]}-${sorted[last]}` : String(sorted[at]));
    at = last + 1;
  }
  return parts.join(', ');
}
