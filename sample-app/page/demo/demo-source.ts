import type { Recording } from '../../demo/recording.js';
import type { RunSettings, TimedAction } from '../../demo/simulated-run.js';
import type { LockMode, SaleSettings } from '../../live/events.js';
import type { Language } from '../messages/language.js';
import { settingsOf } from '../settings.js';
import type { Source, SourceListener } from '../source.js';
import { Playback } from './playback.js';
import { simulateInWorker } from './simulation.js';
import { TEXTS } from './texts.js';

const RECORDINGS = import.meta.glob<{ default: Recording }>('./recordings/*.json');

const DEFAULT_SEED = 7;
export const MAX_SEED = 2 ** 32 - 1;
export const isSeed = (seed: number) => Number.isInteger(seed) && seed >= 0 && seed <= MAX_SEED;

/** An action of the visitor in a link: time, action, instance. */
const ACTION = /^(\d+)-(pause|resume|cut|heal|kill|revive|expire)-([123]|holder|zookeeper)$/;

/** The parameters of a link that plays a run. Before the first run there is only the choice of the next one. */
export function linkParametersOf(
  run: RunSettings | Pick<RunSettings, 'seed' | 'faults'>,
): Record<string, string> {
  const { seed, faults } = run;
  const actions = 'actions' in run ? run.actions : [];
  return {
    ...('modes' in run && {
      mode: run.modes.length > 1 ? 'both' : run.modes[0]!,
      buyers: String(run.buyers),
      items: String(run.items),
      delay: run.delay.join('-'),
    }),
    seed: String(seed),
    ...(!faults && { faults: 'off' }),
    ...(actions.length > 0 && {
      actions: actions.map(({ at, action, instance }) => `${at}-${action}-${instance}`).join('_'),
    }),
  };
}

export type RunKind = 'simulating' | 'simulation' | 'recording' | 'failed';

/** Plays simulated and recorded runs: the source of a page without a server. */
export class DemoSource implements Source {
  seed: number;
  faults: boolean;
  /** Of refusals. */
  language: Language = 'en';
  /** Called when a simulation begins, when a run is shown, or when no run can be shown. */
  onKind: (kind: RunKind) => void = () => {};
  #speed = 1;
  #playback: Playback | undefined;
  /** The simulated run that is shown, or the scenario whose recording is shown. */
  #settings: RunSettings | undefined;
  #scenario: string | undefined;
  /** False before the first sale. */
  #isPlayed = false;
  /** Incremented for each new run; a result with an older number is discarded. */
  #runs = 0;

  /** @param search the parameters of the link, see {@link linkParameters} */
  constructor(private readonly search: string) {
    const query = new URLSearchParams(search);
    const seed = Number(query.get('seed') ?? DEFAULT_SEED);
    this.seed = isSeed(seed) ? seed : DEFAULT_SEED;
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
    this.#begin().catch(() => this.onKind('failed'));
    return stop;
  }

  async post(path: string, body?: object): Promise<{ refusal?: string } | undefined> {
    const [kind, name, action] = path.split('/');
    try {
      if (kind === 'both') await this.#simulate(['none', 'lock'], body as SaleSettings);
      else if (kind === 'sale') {
        const { mode, ...sale } = body as SaleSettings & { mode: LockMode };
        await this.#simulate([mode], sale);
      } else if (kind === 'instances') {
        return await this.#act(Number(name), action as TimedAction['action']);
      } else if (kind === 'zookeeper') {
        return await this.#act('zookeeper', name as TimedAction['action']);
      } else if (name === 'stop') await this.#simulateLink(false);
      else await this.#playRecording(name!);
      return undefined;
    } catch {
      return { refusal: TEXTS[this.language].failed };
    }
  }

  /** The parameters of a link to the run that is shown. */
  linkParameters(): Record<string, string> {
    if (this.#scenario) return { scenario: this.#scenario };
    return linkParametersOf((this.#isPlayed && this.#settings) || this);
  }

  /** A link with a seed or a scenario plays it at once. */
  async #begin(): Promise<void> {
    const query = new URLSearchParams(this.search);
    const scenario = query.get('scenario');
    await this.#simulateLink(query.has('seed') && !scenario);
    if (scenario) await this.post(`scenarios/${scenario}`);
  }

  /** Shows the run of the link, or the instances before it. */
  async #simulateLink(plays: boolean): Promise<void> {
    const { mode, ...sale } = settingsOf(this.search);
    const modes: LockMode[] = mode === 'both' ? ['none', 'lock'] : [mode];
    const texts = (new URLSearchParams(this.search).get('actions') ?? '').split('_');
    const actions = texts.flatMap((text): TimedAction[] => {
      const [, at, action, instance] = ACTION.exec(text) ?? [];
      if (!at) return [];
      return [
        {
          at: Number(at),
          action: action as TimedAction['action'],
          instance: /\d/.test(instance!) ? Number(instance) : (instance as 'holder' | 'zookeeper'),
        },
      ];
    });
    await this.#simulate(modes, sale, { actions, plays });
  }

  async #simulate(
    modes: readonly LockMode[],
    { buyers, items, delay }: SaleSettings,
    { actions = [] as readonly TimedAction[], plays = true } = {},
  ): Promise<void> {
    const { seed, faults } = this;
    const settings = { seed, faults, modes, buyers, items, delay, actions };
    await this.#show(simulateInWorker(settings), { settings, plays });
  }

  async #playRecording(scenario: string): Promise<void> {
    const load = RECORDINGS[`./recordings/${scenario}.json`];
    if (!load) throw new Error(`there is no recording of ${scenario}`);
    const recording = load().then((module) => module.default);
    await this.#show(recording, { scenario });
  }

  /** Simulates the run again with an action of the visitor, which changes nothing before its time. */
  async #act(
    instance: TimedAction['instance'],
    action: TimedAction['action'],
  ): Promise<{ refusal: string } | undefined> {
    const before = this.#settings;
    if (!before) return { refusal: TEXTS[this.language].unchangeable };
    const at = Math.ceil(this.now());
    this.#playback!.stop();
    const actions = [...before.actions, { at, instance, action }].sort((a, b) => a.at - b.at);
    // Known at once, so that a further action before the end of the simulation is added to this one.
    const settings = { ...before, actions };
    this.#settings = settings;
    try {
      await this.#show(simulateInWorker(settings), { settings, at });
    } catch (error) {
      this.#settings = before;
      this.#playback!.play();
      throw error;
    }
    return undefined;
  }

  /** Shows a run when it is available, unless another run has been requested since. */
  async #show(
    run: Promise<Recording>,
    shown: { settings?: RunSettings; scenario?: string; at?: number; plays?: boolean },
  ): Promise<void> {
    const number = ++this.#runs;
    const { settings, scenario, at, plays = true } = shown;
    if (settings) this.onKind('simulating');
    let recording: Recording;
    try {
      recording = await run;
    } catch (error) {
      if (number !== this.#runs) return;
      this.onKind(this.#scenario ? 'recording' : 'simulation');
      throw error;
    }
    if (number !== this.#runs) return;
    this.#settings = settings;
    this.#scenario = scenario;
    this.#isPlayed = plays;
    this.onKind(settings ? 'simulation' : 'recording');
    // A sale begins with the recording.
    const events = recording.events.filter((event) => plays || !('sale' in event));
    this.#playback!.show({ ...recording, events }, at);
    this.#playback!.speed = this.#speed;
    if (plays) this.#playback!.play();
  }
}
