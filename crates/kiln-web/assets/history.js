// Jobs that the accounting has, and one job with what it asked for and what it used.

import { h, setChildren, setText } from './dom.js';
import { filters } from './filters.js';
import { ask, state } from './live.js';
import { table } from './table.js';
import { NEEDS, ago, byName, clock, plural, span } from './words.js';

// Members of an array that wait have one row, and the page of the whole.
export const jobLink = (id) => h('a', { href: `#/jobs/${encodeURIComponent(id.replace(/_\[.*$/, ''))}` }, id);

const SINCE = [['1h', 'an hour'], ['6h', '6 hours'], ['3d', '3 days'], ['7d', 'a week'], ['31d', 'a month']];
const STATES = ['RUNNING', 'PENDING', 'COMPLETED', 'FAILED', 'TIMEOUT', 'OUT_OF_MEMORY', 'CANCELLED', 'NODE_FAIL', 'PREEMPTED'];

export const stateWords = (word) => word.toLowerCase().replaceAll('_', ' ');

// The pages about jobs, with the one that is shown.
export function jobPages(here) {
  const pages = [['#/jobs', 'Queue'], ['#/jobs/history', 'History'], ['#/jobs/limits', 'Limits'], ['#/jobs/scheduler', 'Scheduler']];
  return h('ul', { class: 'tabs' }, pages.map(([href, name]) => h('li', {},
    h('a', { href, 'aria-current': name === here ? 'page' : null }, name))));
}

export function history(query) {
  const known = (of) => () => [...new Set([...state.jobs.values()].flatMap(of))].filter(Boolean).sort(byName).map((value) => [value, value]);
  const choose = filters(query, [
    { name: 'user', label: 'User', kind: 'search' },
    { name: 'account', label: 'Account', kind: 'search' },
    { name: 'partition', label: 'Partition', options: known((job) => job.partition.split(',')) },
    { name: 'state', label: 'State', options: () => STATES.map((word) => [word, stateWords(word)]) },
    { name: 'since', label: 'Ended within', options: () => SINCE, all: 'a day' },
  ], () => later());
  const status = h('p', { class: 'quiet', role: 'status' });
  const list = table('Jobs of the past', [
    { name: 'Job', cell: (job) => jobLink(job.id) },
    { name: 'Name', cell: (job) => job.name },
    { name: 'User', cell: (job) => (job.account ? `${job.user} (${job.account})` : job.user) },
    { name: 'Partition', cell: (job) => job.partition },
    { name: 'Size', class: 'number', cell: (job) => `${plural(job.nodes, 'node')}, ${plural(job.cpus || job.cpus_requested, 'core')}` },
    { name: 'Waited', class: 'number', cell: (job) => (job.waited === null ? '' : span(job.waited)) },
    { name: 'Ran', class: 'number', cell: (job) => (job.ended ? span(job.elapsed) : ago(job.started)) },
    { name: 'Ended', class: 'time', cell: (job) => clock(job.ended) },
    { name: 'State', cell: (job) => [h('span', { class: `j-${job.state}` }, stateWords(job.state)),
      job.exit && job.exit !== '0:0' ? h('p', { class: 'quiet' }, `exit code ${job.exit}`) : ''] },
  ], (job) => job.id);
  const page = h('div', {}, h('h1', {}, 'Jobs'), jobPages('History'), choose.element, status, list.element);
  list.element.hidden = true;

  let number = 0;
  const load = async () => {
    number += 1;
    const mine = number;
    setText(status, 'The accounting is being asked …');
    const wanted = new URLSearchParams(Object.entries(choose.values).filter(([, value]) => value));
    try {
      const answer = await ask(`/api/v1/history?${wanted}`);
      // Somebody has chosen something else meanwhile.
      if (mine !== number) return;
      setText(status, told(answer));
      status.classList.toggle('warning', answer.problem !== null);
      list.element.hidden = false;
      list.show(answer.jobs);
    } catch (error) {
      if (mine !== number) return;
      setText(status, error.message);
      list.element.hidden = true;
    }
  };
  // Typing is one question, not one for each letter.
  let due = null;
  const later = () => {
    clearTimeout(due);
    due = setTimeout(load, 500);
  };
  load();
  return { title: 'History', element: page, show: () => choose.refresh() };
}

function told(answer) {
  if (answer.problem) return `The accounting does not answer: ${answer.problem}. These are the jobs of the queue.`;
  const jobs = plural(answer.jobs.length, 'job');
  if (answer.is_whole) return `${jobs}, all that ended since ${clock(answer.since)} or are not over`;
  return `The newest ${jobs}: there are more. Choose less to see the others.`;
}

export function job(id) {
  const head = h('div', {}, h('p', { class: 'quiet' }, h('a', { href: '#/jobs' }, 'Jobs')), h('h1', {}, `Job ${id}`));
  const status = h('p', { class: 'quiet wide', role: 'status' }, 'Slurm is being asked …');
  const sections = h('div', { class: 'node' });
  const page = h('div', {}, head, status, sections);
  let detail = null;
  let seen = null;

  const load = async () => {
    try {
      detail = await ask(`/api/v1/jobs/${encodeURIComponent(id)}`);
      setText(status, detail.problem ? `The accounting does not answer: ${detail.problem}. This is what the queue has.` : '');
      status.classList.toggle('warning', detail.problem !== null);
      draw();
    } catch (error) {
      setText(status, error.message);
    }
  };
  const live = () => [...state.jobs.values()].filter((one) => one.id === id || one.id.split(/[_+]/)[0] === id);
  const draw = () => {
    const record = detail.record ?? (detail.members.length ? null : alone(live()[0] ?? detail.queue[0]));
    setChildren(sections, [
      record ? h('section', { class: 'card' }, h('h2', {}, 'What it is'), facts(record)) : null,
      record ? h('section', { class: 'card' }, h('h2', {}, 'What became of it'), life(record, live())) : null,
      detail.efficiency ? h('section', { class: 'card' }, h('h2', {}, 'What it used'), efficiency(detail.efficiency, record)) : null,
      detail.steps.length ? h('section', { class: 'wide' }, h('h2', {}, 'Steps'), steps(detail.steps)) : null,
      detail.members.length ? h('section', { class: 'wide' }, h('h2', {}, 'Members'), members(detail.members)) : null,
    ]);
  };
  const show = () => {
    if (!detail) return;
    draw();
    // It is asked for again when the queue has something new of it.
    const mark = live().map((one) => `${one.id} ${one.state}`).join();
    if (seen !== null && seen !== mark) load();
    seen = mark;
  };
  load();
  return { title: `Job ${id}`, element: page, show };
}

// What the queue has of a job, in the form of the accounting.
function alone(one) {
  if (!one) return null;
  return { ...one, cpus_requested: one.cpus, started: one.waiting ? null : one.start, ended: null, eligible: null, waited: null,
    outcome: null, exit: null, time_limit: null, time_limit_words: one.time_limit, memory_requested_mib: null, gpus: null };
}

const fact = (term, value) => (value ? [h('dt', {}, term), h('dd', {}, value)] : []);

export function size(mib) {
  if (mib === null || mib === undefined) return '';
  return mib < 1024 ? `${mib} MiB` : `${(mib / 1024).toFixed(1)} GiB`;
}

function facts(record) {
  return h('dl', { class: 'facts' },
    ...fact('Name', record.name),
    ...fact('User', record.user),
    ...fact('Account', record.account),
    ...fact('Partition', record.partition),
    ...fact('QOS', record.qos),
    ...fact('Cores', record.cpus && record.cpus !== record.cpus_requested
      ? `${record.cpus}, asked for ${record.cpus_requested}` : String(record.cpus || record.cpus_requested)),
    ...fact('Memory', size(record.memory_requested_mib)),
    ...fact('GPUs', record.gpus ? String(record.gpus) : ''),
    ...fact('Time limit', record.time_limit === null ? record.time_limit_words : span(record.time_limit)),
    ...fact('Nodes', record.nodelist ? nodeLinks(record.nodelist) : `${record.nodes} asked for`));
}

// A single node has a page; a list is told as Slurm writes it.
function nodeLinks(list) {
  return state.nodes.has(list) ? h('a', { href: `#/nodes/${encodeURIComponent(list)}` }, list) : list;
}

function life(record, live) {
  const waits = live.find((one) => one.waiting)?.waiting;
  const running = record.started && !record.ended;
  return h('div', {},
    h('p', {}, h('b', { class: `j-${record.state}` }, stateWords(record.state)), record.outcome ? `. ${record.outcome}` : ''),
    waits ? h('p', {}, `${waits.text} `, h('span', { class: `needs n-${waits.needs}` }, NEEDS[waits.needs])) : null,
    h('dl', { class: 'facts' },
      ...fact('Submitted', clock(record.submitted)),
      ...fact('Could start', record.eligible && record.eligible !== record.submitted ? clock(record.eligible) : ''),
      ...fact('Started', clock(record.started)),
      ...fact('Waited', record.waited === null ? '' : span(record.waited)),
      ...fact('Ended', clock(record.ended)),
      ...fact(running ? 'Runs for' : 'Ran', record.ended && record.started ? span(record.elapsed) : (running ? ago(record.started) : '')),
      ...fact('Exit code', record.exit)));
}

function efficiency(used, record) {
  const row = (name, percent, words) => h('li', {}, h('span', { class: 'progress' },
    bar(percent), h('span', {}, h('b', {}, `${name} ${percent === null ? 'not measured' : `${percent} %`}`), ` ${words}`)));
  const cpu = used.cpu_ms === null ? '' : `${span(used.cpu_ms / 1000)} on cores, of ${span(used.cpu_had_ms / 1000)} that it had`;
  const memory = used.memory_used_mib === null
    ? (used.memory_requested_mib === null ? '' : `of ${size(used.memory_requested_mib)} asked for`)
    : `${size(used.memory_used_mib)}${used.memory_requested_mib === null ? '' : ` of ${size(used.memory_requested_mib)} asked for`}`;
  const time = record.time_limit === null ? (record.time_limit_words ?? '') : `${span(record.elapsed)} of ${span(record.time_limit)}`;
  return h('div', {},
    h('ul', { class: 'plain efficiency' }, row('Cores', used.cpu_percent, cpu), row('Memory', used.memory_percent, memory),
      row('Time', used.time_percent, time)),
    used.remarks.map((remark) => h('p', {}, remark)),
    used.memory_used_mib === null && record.ended
      ? h('p', { class: 'quiet' }, 'Slurm looks at memory from time to time: of a short job it may have seen nothing.') : null);
}

function bar(percent) {
  const part = h('span', { class: 'work' });
  part.style.width = `${Math.min(100, percent ?? 0)}%`;
  return h('span', { class: 'bar', 'aria-hidden': 'true' }, part);
}

function steps(all) {
  const list = table('Steps', [
    { name: 'Step', cell: (step) => step.step },
    { name: 'Name', cell: (step) => step.name },
    { name: 'State', cell: (step) => stateWords(step.state) },
    { name: 'Started', class: 'time', cell: (step) => clock(step.started) },
    { name: 'Ran', class: 'number', cell: (step) => span(step.elapsed) },
    { name: 'Cores', class: 'number', cell: (step) => String(step.cpus) },
    { name: 'On cores', class: 'number', cell: (step) => (step.cpu_ms === null ? '' : span(step.cpu_ms / 1000)) },
    { name: 'Memory', class: 'number', cell: (step) => size(step.memory_used_mib) },
    { name: 'Exit code', class: 'number', cell: (step) => step.exit ?? '' },
  ], (step) => step.step);
  list.show(all);
  return list.element;
}

function members(all) {
  const list = table('Members', [
    { name: 'Job', cell: (one) => jobLink(one.id) },
    { name: 'State', cell: (one) => stateWords(one.state) },
    { name: 'Started', class: 'time', cell: (one) => clock(one.started) },
    { name: 'Ran', class: 'number', cell: (one) => (one.ended ? span(one.elapsed) : '') },
    { name: 'Nodes', cell: (one) => one.nodelist },
    { name: 'Exit code', class: 'number', cell: (one) => one.exit ?? '' },
  ], (one) => one.id);
  list.show(all);
  return list.element;
}
