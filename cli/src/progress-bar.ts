/** A progress bar of block characters. */
const WIDTH = 20

/** `share`: 0…1. `width`: in characters. */
export const progressBar = (share: number, width = WIDTH): string =>
  '█'.repeat(Math.round(share * width)).padEnd(width, '░')
