import { classOf, count, nameOf } from './names.js';

const UP = ['CONNECTED', 'RECONNECTED'];

const ACTIONS = {
  kill: 'Kill instance',
  expire: 'Expire the session of instance',
  revive: 'Revive instance',
};

/** One card for each instance: its state, its orders and its buttons. */
export class Instances {
  #parent;
  #post;
  #cards = new Map();
  #may = { canControl: false, canExpire: false };

  constructor(parent, post) {
    this.#parent = parent;
    this.#post = post;
  }

  allow(hello) {
    this.#may = hello;
  }

  show({ instances, leader, queue, goods }) {
    const holder = queue.first.find(({ state }) => state === 'holding')?.instance;
    for (const one of instances) {
      const { number } = one;
      if (!this.#cards.has(number)) this.#cards.set(number, this.#add(number));
      this.#fill(this.#cards.get(number), one, {
        leads: leader === number,
        holds: holder === number,
        orders: goods.orders,
      });
    }
  }

  #add(number) {
    const card = document.querySelector('#instance').content.firstElementChild.cloneNode(true);
    card.classList.add(classOf(number));
    card.querySelector('h2').textContent = nameOf(number);
    for (const [action, label] of Object.entries(ACTIONS)) {
      const button = card.querySelector(`.${action}`);
      button.setAttribute('aria-label', `${label} ${number}`);
      button.addEventListener('click', () => this.#post(`instances/${number}/${action}`));
    }
    this.#parent.append(card);
    return card;
  }

  #fill(card, { number, pid, life, connection, sold, waiting }, { leads, holds, orders }) {
    const find = (selector) => card.querySelector(selector);
    card.classList.toggle('dead', life !== 'alive');
    find('.leads').hidden = !leads;
    find('.holds').hidden = !holds;
    const state = find('.state');
    state.textContent = life === 'alive' ? connection.state : life === 'dead' ? 'DEAD' : 'STARTING';
    state.className = `state ${UP.includes(connection?.state) ? 'up' : 'down'}`;
    find('.session').textContent =
      life === 'alive' ? `session ${connection.session ?? 'none'}, pid ${pid}` : '';
    const share = find('.share');
    share.setAttribute('aria-label', `Sold by instance ${number}`);
    share.setAttribute('aria-valuemax', orders);
    share.setAttribute('aria-valuenow', sold);
    share.firstElementChild.style.width = `${(100 * sold) / Math.max(orders, 1)}%`;
    find('.sold').textContent = `${count(sold)} sold, ${count(waiting)} waiting`;
    this.#offer(find('.kill'), life === 'alive');
    this.#offer(find('.expire'), life === 'alive' && this.#may.canExpire);
    this.#offer(find('.revive'), life === 'dead');
  }

  #offer(button, isShown) {
    button.hidden = !isShown;
    button.disabled = !this.#may.canControl;
  }
}
