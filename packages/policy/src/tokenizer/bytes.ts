/** Conversion of vocabulary entries to bytes. */

/**
 * `byteLevel`: each character stands for one byte, by GPT-2's alphabet. `byteFallback`: an entry such as `<0x0A>`
 * stands for one byte. `replace`: texts to replace and their replacements, in order.
 */
export type ByteForm = {
  byteLevel: boolean
  byteFallback: boolean
  replace: [string, string][]
  stripLeadingSpace: boolean
}

/**
 * GPT-2's alphabet, by byte: a printable Latin-1 byte is represented by its own character, the others in order by the
 * characters from U+0100 (encoder.py, bytes_to_unicode).
 */
export function byteAlphabet(): string[] {
  const visible = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255)
  let next = 256
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode(visible(b) ? b : next++))
}

const byteOf = new Map(byteAlphabet().map((character, byte) => [character, byte]))
const utf8 = new TextEncoder()

/** The bytes of a vocabulary entry. A character outside the alphabet stands for its UTF-8 bytes. */
export function tokenBytes(token: string, form: ByteForm): Uint8Array {
  if (form.byteLevel) {
    const out: number[] = []
    for (const character of token) {
      const byte = byteOf.get(character)
      if (byte === undefined) out.push(...utf8.encode(character))
      else out.push(byte)
    }
    return Uint8Array.from(out)
  }
  if (form.byteFallback && /^<0x[0-9A-Fa-f]{2}>$/.test(token)) return Uint8Array.of(parseInt(token.slice(3, 5), 16))
  return utf8.encode(form.replace.reduce((text, [from, to]) => text.replaceAll(from, to), token))
}
