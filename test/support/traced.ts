/** Replaces a method as decorators do that do not know of metadata. */
export const Traced: MethodDecorator = (_target, _method, descriptor) => {
  const method = descriptor.value as (...args: unknown[]) => unknown;
  descriptor.value = function (this: unknown, ...args: unknown[]) {
    return method.apply(this, args);
  } as never;
};
