/** Finds a field of a JSON object in its bytes, without making values of them. */

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/** So many bytes of a text are looked at one by one before its end is searched for, which pays where quotes are rare. */
const NEAR = 64

/** Behind the text that begins at `at`. */
const afterText = (json: Buffer, at: number): number => {
  for (let from = at + 1; from < json.length;) {
    const near = Math.min(json.length, from + NEAR)
    for (; from < near; from += 1) {
      const byte = json[from]
      if (byte === BACKSLASH) from += 1
      else if (byte === QUOTE) return from + 1
    }
    const quote = json.indexOf(QUOTE, from)
    if (quote < 0) break
    let escape = quote
    while (escape > from && json[escape - 1] === BACKSLASH) escape -= 1
    if ((quote - escape) % 2 === 0) return quote + 1
    from = quote + 1
  }
  return json.length
}

const isBlank = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

const afterBlanks = (json: Buffer, at: number): number => {
  let i = at
  while (isBlank(json[i])) i += 1
  return i
}

/** Behind the value that begins at `at`. */
const afterValue = (json: Buffer, at: number): number => {
  let depth = 0
  for (let i = at; i < json.length;) {
    const byte = json[i]!
    if (byte === QUOTE) {
      i = afterText(json, i)
      if (depth === 0) return i
      continue
    }
    if (depth === 0 && (byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_LIST)) return i
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth += 1
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      depth -= 1
      if (depth === 0) return i + 1
    }
    i += 1
  }
  return json.length
}

/** The JSON of the field's value, of several of this name the last's; null where there is none, or where a name is escaped. `bytes` have to be a valid object. */
export const fieldIn = (bytes: Uint8Array, name: string): Uint8Array | null => {
  const json = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const wanted = Buffer.from(`"${name}"`)
  let found: Uint8Array | null = null
  let at = afterBlanks(json, afterBlanks(json, 0) + 1)
  while (json[at] === QUOTE) {
    const end = afterText(json, at)
    const value = afterBlanks(json, afterBlanks(json, end) + 1)
    if (json[afterBlanks(json, end)] !== COLON) return null
    const after = afterValue(json, value)
    const named = json.subarray(at, end)
    // It may say the same name in other letters.
    if (named.includes(BACKSLASH)) return null
    if (wanted.equals(named)) found = json.subarray(value, after)
    at = afterBlanks(json, afterBlanks(json, after) + 1)
  }
  return found
}
