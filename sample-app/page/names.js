const CLASSES = ['first', 'second', 'third'];

/** The class that gives an instance its colour. */
export const classOf = (number) => CLASSES[(number - 1) % CLASSES.length];

export const nameOf = (number) => (number ? `Instance ${number}` : 'A former process');

export const count = (value) => value.toLocaleString('en');
