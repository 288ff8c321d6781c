/** Mutations of valid bodies: of their values, then of their bytes. */
import { type Dice, junk, Raw, TEXTS, write } from './dice.ts'

type Place = { owner: Record<string, unknown> | unknown[]; name: string | number }

const placesOf = (value: unknown): Place[] => {
  if (typeof value !== 'object' || value === null || value instanceof Raw) return []
  const owner = value as Record<string, unknown> | unknown[]
  const own: Place[] = Array.isArray(owner)
    ? owner.map((_, name) => ({ owner, name }))
    : Object.keys(owner).map((name) => ({ owner, name }))
  return [...own, ...own.flatMap((place) => placesOf(at(place)))]
}

const at = ({ owner, name }: Place): unknown => (owner as Record<string | number, unknown>)[name]
const put = ({ owner, name }: Place, value: unknown): void => {
  ;(owner as Record<string | number, unknown>)[name] = value
}

/** A value may be put into itself. */
const copied = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(copied)
  return typeof value !== 'object' || value === null || value instanceof Raw
    ? value
    : Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, copied(inner)]))
}

/** Changes one place of the value: removes it, moves it, repeats it, or changes its type. */
export const mutate = (dice: Dice, body: Record<string, unknown>): void => {
  const places = placesOf(body)
  if (places.length === 0) return
  const place = dice.pick(places)
  const { owner, name } = place
  switch (dice.below(9)) {
    case 0:
      if (Array.isArray(owner)) owner.splice(Number(name), 1)
      else delete owner[name]
      break
    case 1:
      put(place, copied(at(dice.pick(places))))
      break
    case 2:
      put(place, [at(place)])
      break
    case 3:
      put(place, { [dice.pick(['0', 'text', 'content', 'id', '__proto__x'])]: at(place) })
      break
    case 4:
      if (Array.isArray(owner))
        for (let i = typeof at(place) === 'object' ? 3 : dice.pick([1, 60]); i > 0; i -= 1)
          owner.push(owner[Number(name)])
      else owner[dice.pick(TEXTS)] = junk(dice)
      break
    case 5:
      put(place, typeof at(place) === 'string' ? `${String(at(place))}${dice.pick(TEXTS)}` : dice.pick(TEXTS))
      break
    default:
      put(place, junk(dice))
  }
}

export const bodyText = (dice: Dice, body: Record<string, unknown>): string => {
  const written = write(body)
  // The same key again, first or last.
  if (!dice.chance(0.03)) return written
  const extra = `${JSON.stringify(dice.pick(['model', 'messages', 'input', 'stream', 'max_tokens', '__proto__']))}:${write(junk(dice))}`
  return dice.chance(0.5) ? `{${extra},${written.slice(1)}` : `${written.slice(0, -1)},${extra}}`
}

/** Bytes that are not JSON, or JSON in another encoding. */
export const damaged = (dice: Dice, text: string): Buffer => {
  const bytes = Buffer.from(text)
  const place = dice.below(bytes.length + 1)
  const insert = (what: string | Buffer): Buffer =>
    Buffer.concat([bytes.subarray(0, place), Buffer.from(what), bytes.subarray(place)])
  switch (dice.below(12)) {
    case 0:
      return bytes.subarray(0, place)
    case 1:
      return insert(dice.bytes(1 + dice.below(4)))
    case 2:
      return insert(
        dice.pick([
          '\u0000',
          '\u0001',
          ',',
          '}',
          ']',
          '"',
          '//',
          '/**/',
          'NaN',
          'Infinity',
          '0x1',
          "'",
          '\\',
          '\\u12',
          '\n\n',
          '+1',
          '.5',
        ]),
      )
    case 3:
      return Buffer.from(text, 'utf16le')
    case 4:
      return Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes])
    case 5:
      return Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')])
    case 6:
      return insert(
        Buffer.from(
          dice.pick([
            [0xc0, 0x80],
            [0xed, 0xa0, 0x80],
            [0xf8, 0x88, 0x80, 0x80, 0x80],
            [0xff],
            [0xe2, 0x82],
            [0xf4, 0x90, 0x80, 0x80],
          ]),
        ),
      )
    case 7:
      return Buffer.from(
        dice.pick([
          '',
          'null',
          '[]',
          '[{}]',
          '"text"',
          '1',
          'true',
          '{',
          '{}',
          '{"":""}',
          '}',
          'a=b&c=d',
          '<xml/>',
          '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n--b--',
          '\u0000'.repeat(64),
          '('.repeat(500),
        ]),
      )
    case 8:
      return Buffer.concat([bytes, bytes])
    case 9:
      return Buffer.from(`${'['.repeat(dice.pick([100, 5000, 60_000]))}${dice.pick(['', text])}`)
    case 10:
      return Buffer.concat([
        bytes.subarray(0, -1),
        Buffer.from(`,"padding":"${'x'.repeat(dice.pick([100, 120_000, 270_000]))}"}`),
      ])
    default:
      return dice.bytes(dice.below(300))
  }
}
