import type { Recording } from '../../demo/recording.js';
import type { RunSettings, TimedAction } from '../../demo/simulated-run.js';
import type { LockMode, SaleSettings } from '../../live/events.js';
import { settingsOf } from '../settings.js';
import type { Source, SourceListener } from '../source.js';
import { Playback } from './playback.js';
import { simulateInWorker } from './simulation.js';

const RECORDINGS = import.meta.glob<{ default: Recording }>('./recordings/*.json');

const DEFAULT_SEED = 7;
const MAX_SEED = 2 ** 32 - 1;
/** An action of the visitor in a link: time, action, instance. */
const ACTION = /^(\d+)-(pause|resume|cut|heal|kill|revive|expire)-([123])$/;

export type RunKind = 'simulation' | 'recording';

/** Plays simulated and recorded runs: the source of a page without a server. */
export class DemoSource implements Source {
  seed: number;
  faults: boolean;
  /** Called when another kind of run is shown. */
  onKind: (kind: RunKind) => void = () => {};
  #speed = 1;
  #playback: Playback | undefined;
  /** The simulated run that is shown, or the scenario whose recording is shown. */
  #settings: RunSettings | undefined;
  #scenario: string | undefined;
  /** The number of changes of what is shown. A simulation that ends after a later change is not shown. */
  #changes = 0;

  /** @param search the parameters of the link, see {@link linkParameters} */
  constructor(private readonly search: string) {
    const query = new URLSearchParams(search);
    const seed = Number(query.get('seed') ?? DEFAULT_SEED);
    this.seed = Number.isInteger(seed) && seed >= 0 && seed <= MAX_SEED ? seed : DEFAULT_SEED;
    this.faults = query.get('faults') !== 'off';
  }

  get speed(): number {
    return this.#speed;
  }

  set speed(speed: number) {
    this.#speed = speed;
    if (this.#playback) this.#playback.speed = speed;
  }

  now(): number {
    return this.#playback?.now ?? 0;
  }

  connect(listener: SourceListener): () => void {
    this.#playback = new Playback(listener);
    const stop = this.#playback.run();
    void this.#begin();
    return stop;
  }

  async post(path: string, body?: object): Promise<{ refusal?: string } | undefined> {
    const [kind, name, action] = path.split('/');
    try {
      if (kind === 'both') await this.#simulate(['none', 'lock'], body as SaleSettings);
      else if (kind === 'sale') {
        const { mode, ...sale } = body as SaleSettings & { mode: LockMode };
        await this.#simulate([mode], sale);
      } else if (kind === 'scenarios') await this.#playRecording(name!);
      else return await this.#act(Number(name), action as TimedAction['action']);
      return undefined;
    } catch (error) {
      return { refusal: String(error) };
    }
  }

  /** The parameters of a link to the run that is shown. */
  linkParameters(): Record<string, string> {
    if (this.#scenario) return { scenario: this.#scenario };
    const actions = this.#settings?.actions ?? [];
    return {
      seed: String(this.seed),
      ...(!this.faults && { faults: 'off' }),
      ...(actions.length > 0 && {
        actions: actions.map(({ at, action, instance }) => `${at}-${action}-${instance}`).join('_'),
      }),
    };
  }

  /** Shows the instances before the first sale. A link with a seed or a scenario plays it at once. */
  async #begin(): Promise<void> {
    const query = new URLSearchParams(this.search);
    const { mode, ...sale } = settingsOf(this.search);
    const modes: LockMode[] = mode === 'both' ? ['none', 'lock'] : [mode];
    const actions = (query.get('actions') ?? '').split('_').flatMap((text): TimedAction[] => {
      const [, at, action, instance] = ACTION.exec(text) ?? [];
      if (!at) return [];
      return [
        { at: Number(at), action: action as TimedAction['action'], instance: Number(instance) },
      ];
    });
    const scenario = query.get('scenario');
    const plays = query.has('seed') && !scenario;
    await this.#simulate(modes, sale, { actions, plays });
    if (scenario) await this.post(`scenarios/${scenario}`);
  }

  async #simulate(
    modes: readonly LockMode[],
    sale: SaleSettings,
    { actions = [] as readonly TimedAction[], plays = true } = {},
  ): Promise<void> {
    const { seed, faults } = this;
    const { buyers, items, delay } = sale;
    await this.#showSimulated({ seed, faults, modes, buyers, items, delay, actions }, { plays });
  }

  async #playRecording(name: string): Promise<void> {
    const load = RECORDINGS[`./recordings/${name}.json`];
    if (!load) throw new Error(`there is no recording of ${name}`);
    const change = ++this.#changes;
    const { default: recording } = await load();
    if (change === this.#changes) this.#show(recording, { scenario: name });
  }

  /** Simulates the run again with an action of the visitor, which changes nothing before its time. */
  async #act(
    instance: number,
    action: TimedAction['action'],
  ): Promise<{ refusal: string } | undefined> {
    if (!this.#settings) return { refusal: 'A recorded run cannot be changed.' };
    const at = Math.ceil(this.now());
    this.#playback!.stop();
    const actions = [...this.#settings.actions, { at, instance, action }];
    actions.sort((a, b) => a.at - b.at);
    // Known at once, so that a further action before the end of the simulation is added to this one.
    this.#settings = { ...this.#settings, actions };
    await this.#showSimulated(this.#settings, { at });
    return undefined;
  }

  async #showSimulated(
    settings: RunSettings,
    { at, plays = true }: { at?: number; plays?: boolean },
  ): Promise<void> {
    const change = ++this.#changes;
    const run = await simulateInWorker(settings);
    if (change === this.#changes) this.#show(run, { settings, at, plays });
  }

  #show(
    recording: Recording,
    shown: { settings?: RunSettings; scenario?: string; at?: number; plays?: boolean },
  ): void {
    const { settings, scenario, at, plays = true } = shown;
    this.#settings = settings;
    this.#scenario = scenario;
    this.onKind(settings ? 'simulation' : 'recording');
    this.#playback!.show(recording, at);
    this.#playback!.speed = this.#speed;
    if (plays) this.#playback!.play();
  }
}
