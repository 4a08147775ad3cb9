import 'reflect-metadata';
import type { LockSpec } from './lock-spec.js';

const LOCK_SPECS = 'nestjs-zookeeper:locks';

/** The locks of a method, outermost first. Empty for a method that has none. */
export function lockSpecsOf(method: object): readonly LockSpec[] {
  return (Reflect.getMetadata(LOCK_SPECS, method) as LockSpec[] | undefined) ?? [];
}

/** Decorators are applied from the lowest up: the one that comes last is the outermost. */
export function addLockSpec(method: object, spec: LockSpec): void {
  Reflect.defineMetadata(LOCK_SPECS, [spec, ...lockSpecsOf(method)], method);
}

/** What the decorators below said of the method is true of its wrapper. */
export function copyMetadata(from: object, to: object): void {
  for (const key of Reflect.getMetadataKeys(from)) {
    Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
  }
}
