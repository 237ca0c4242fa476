// The random numbers of stochastic rounding.

const WORD = (1n << 64n) - 1n;

/** Number `index` of the random numbers of `codec.round_to` with rng=key: splitmix64, 64 bits as a BigInt. */
export function random64At(key, index) {
  let z = (index * 0x9e3779b97f4a7c15n + key) & WORD;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & WORD;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & WORD;
  return z ^ (z >> 31n);
}
