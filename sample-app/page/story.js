import { count, nameOf } from './names.js';

const LONGEST = 100;
const LOCKS = {
  none: 'no lock',
  lock: 'the lock',
  lingering: 'the lingering lock',
  strict: 'the strict lock',
};

/** Describes what changed between two snapshots. */
export class Story {
  #list;
  #before;
  /** The state of the lock's queue in the latest snapshot. */
  #holder;
  #lastHolder;
  /** A holder that died or lost its session, and the time. */
  #stricken;

  constructor(list) {
    this.#list = list;
  }

  tell(now) {
    const before = this.#before;
    this.#before = now;
    if (!before) return;
    this.#tellRun(before.run, now.run, now.goods);
    now.instances.forEach((one, i) => this.#tellInstance(before.instances[i], one));
    if (now.leader && now.leader !== before.leader) this.#say(`${nameOf(now.leader)} leads now.`);
    this.#tellHolder(now);
  }

  #tellRun(before, run, { orders }) {
    if (!run) return;
    if (run.number !== before?.number) {
      const { buyers, items, mode } = run.order;
      this.#say(`${count(buyers)} buyers come for ${count(items)} items, with ${LOCKS[mode]}.`);
    } else if (run.over && !before.over) {
      this.#say(`${count(orders)} orders in ${run.seconds.toFixed(1)} s.`);
    }
  }

  #tellInstance(before, { number, life, connection }) {
    const name = nameOf(number);
    if (before.life !== life) {
      this.#say(`${name} ${{ alive: 'is up', dead: 'was killed', starting: 'starts' }[life]}.`);
    } else if (before.connection?.session !== connection?.session) {
      if (connection.session) this.#say(`${name} has another session.`);
      if (before.connection.session) this.#tellExpired(before.connection.session);
    } else if (before.connection?.state !== connection?.state) {
      this.#say(`${name}: ${connection.state}.`);
    }
  }

  /** The next holder may have the lock before the earlier holder's client knows that its session has ended. */
  #tellExpired(session) {
    if (this.#holder?.session === session) this.#strike(this.#holder);
    else if (this.#lastHolder?.session === session) this.#tellMove(this.#lastHolder, this.#holder);
  }

  #tellHolder({ queue, instances }) {
    const holder = queue.first.find(({ state }) => state === 'holding');
    if (!holder) return;
    if (holder.node !== this.#holder?.node) {
      this.#lastHolder = this.#holder;
      this.#holder = holder;
      if (this.#stricken) {
        const seconds = (performance.now() - this.#stricken.at) / 1000;
        this.#tellMove(this.#stricken.holder, holder, `, ${seconds.toFixed(1)} s later`);
      }
      this.#stricken = undefined;
    }
    const isDead = instances.find(({ number }) => number === holder.instance)?.life === 'dead';
    if (isDead) this.#strike(this.#holder);
  }

  #strike(holder) {
    this.#stricken ??= { holder, at: performance.now() };
  }

  #tellMove(from, to, when = '') {
    this.#say(`The lock moved on from instance ${from.instance} to ${to.instance}${when}.`);
  }

  #say(text) {
    const line = document.createElement('li');
    const time = document.createElement('time');
    time.textContent = new Date().toLocaleTimeString('en-GB');
    line.append(time, text);
    this.#list.prepend(line);
    if (this.#list.children.length > LONGEST) this.#list.lastElementChild.remove();
  }
}
