type Listener = (message: unknown, name: unknown) => void;

const channels = new Map<unknown, Channel>();

/** As in Node, a channel has another class while it has no subscribers, which lets the simulation replace both. */
class Channel {
  readonly listeners: Listener[] = [];

  constructor(readonly name: unknown) {}

  get hasSubscribers(): boolean {
    return false;
  }

  subscribe(listener: Listener): void {
    Object.setPrototypeOf(this, ActiveChannel.prototype);
    this.subscribe(listener);
  }

  unsubscribe(_listener: Listener): boolean {
    return false;
  }

  publish(_message: unknown): void {}
}

class ActiveChannel extends Channel {
  override get hasSubscribers(): boolean {
    return true;
  }

  override subscribe(listener: Listener): void {
    this.listeners.push(listener);
  }

  override unsubscribe(listener: Listener): boolean {
    const index = this.listeners.indexOf(listener);
    if (index < 0) return false;
    this.listeners.splice(index, 1);
    if (this.listeners.length === 0) Object.setPrototypeOf(this, Channel.prototype);
    return true;
  }

  override publish(message: unknown): void {
    for (const listener of [...this.listeners]) listener(message, this.name);
  }
}

export function channel(name: unknown): Channel {
  const known = channels.get(name) ?? new Channel(name);
  channels.set(name, known);
  return known;
}

export function subscribe(name: unknown, listener: Listener): void {
  channel(name).subscribe(listener);
}

export function unsubscribe(name: unknown, listener: Listener): boolean {
  return channel(name).unsubscribe(listener);
}
