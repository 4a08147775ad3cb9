import { count, nameOf } from './names.js';

const LONGEST = 100;
const LOCKS = {
  none: 'no lock',
  lock: 'the lock',
  lingering: 'the lingering lock',
  strict: 'the strict lock',
};

/** Describes what changed between two snapshots. */
export class ChangeLog {
  #list;
  #before;
  /** The state of the lock's queue in the latest snapshot. */
  #holder;
  #lastHolder;
  /** A holder that died or lost its session, and the time. */
  #lostHolder;

  constructor(list) {
    this.#list = list;
  }

  update(now) {
    const before = this.#before;
    this.#before = now;
    if (!before) return;
    this.#logRun(before.run, now.run, now.goods);
    now.instances.forEach((one, i) => this.#logInstance(before.instances[i], one));
    if (now.leader && now.leader !== before.leader) this.#add(`${nameOf(now.leader)} leads now.`);
    this.#logHolder(now);
  }

  #logRun(before, run, { orders }) {
    if (!run) return;
    if (run.number !== before?.number) {
      const { buyers, items, mode } = run.order;
      this.#add(`${count(buyers)} buyers come for ${count(items)} items, with ${LOCKS[mode]}.`);
    } else if (run.over && !before.over) {
      this.#add(`${count(orders)} orders in ${run.seconds.toFixed(1)} s.`);
    }
  }

  #logInstance(before, { number, life, connection }) {
    const name = nameOf(number);
    if (before.life !== life) {
      this.#add(`${name} ${{ alive: 'is up', dead: 'was killed', starting: 'starts' }[life]}.`);
    } else if (before.connection?.session !== connection?.session) {
      if (connection.session) this.#add(`${name} has a new session.`);
      if (before.connection.session) this.#logExpiry(before.connection.session);
    } else if (before.connection?.state !== connection?.state) {
      this.#add(`${name}: ${connection.state}.`);
    }
  }

  /** The next holder may have the lock before the earlier holder's client knows that its session has ended. */
  #logExpiry(session) {
    if (this.#holder?.session === session) this.#markLost(this.#holder);
    else if (this.#lastHolder?.session === session) this.#logMove(this.#lastHolder, this.#holder);
  }

  #logHolder({ queue, instances }) {
    const holder = queue.first.find(({ state }) => state === 'holding');
    if (!holder) return;
    if (holder.node !== this.#holder?.node) {
      this.#lastHolder = this.#holder;
      this.#holder = holder;
      if (this.#lostHolder) {
        const seconds = (performance.now() - this.#lostHolder.at) / 1000;
        this.#logMove(this.#lostHolder.holder, holder, `, ${seconds.toFixed(1)} s later`);
      }
      this.#lostHolder = undefined;
    }
    const isDead = instances.find(({ number }) => number === holder.instance)?.life === 'dead';
    if (isDead) this.#markLost(this.#holder);
  }

  #markLost(holder) {
    this.#lostHolder ??= { holder, at: performance.now() };
  }

  #logMove(from, to, when = '') {
    this.#add(`The lock moved from instance ${from.instance} to ${to.instance}${when}.`);
  }

  #add(text) {
    const line = document.createElement('li');
    const time = document.createElement('time');
    time.textContent = new Date().toLocaleTimeString('en-GB');
    line.append(time, text);
    this.#list.prepend(line);
    if (this.#list.children.length > LONGEST) this.#list.lastElementChild.remove();
  }
}
