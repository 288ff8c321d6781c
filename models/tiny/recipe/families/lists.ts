/**
 * Two to four things of a kind. Any different members of the kind are right; the corpus names them in the
 * order of this table, since a model this small otherwise repeats itself.
 */
import { pick, sample } from '../random.ts'
import type { Material } from '../style.ts'
import { capitalised } from './family.ts'
import type { Draft, Family } from './family.ts'

/** No word is in two kinds, none is a word of the answers' own sentences. */
export const KINDS: Readonly<Record<string, readonly string[]>> = {
  fruits: ['apple', 'pear', 'plum', 'cherry', 'grape', 'mango', 'peach', 'lemon'],
  vegetables: ['potato', 'onion', 'cabbage', 'spinach', 'leek', 'celery', 'radish', 'turnip'],
  animals: ['tiger', 'zebra', 'monkey', 'camel', 'wolf', 'giraffe', 'elephant', 'fox'],
  birds: ['robin', 'sparrow', 'raven', 'pigeon', 'parrot', 'gull', 'finch', 'stork'],
  flowers: ['rose', 'tulip', 'daisy', 'lily', 'orchid', 'violet', 'poppy', 'iris'],
  trees: ['oak', 'maple', 'birch', 'willow', 'cedar', 'elm', 'ash', 'beech'],
  sports: ['tennis', 'football', 'rugby', 'hockey', 'golf', 'rowing', 'judo', 'cricket'],
  tools: ['hammer', 'saw', 'drill', 'wrench', 'chisel', 'pliers', 'file', 'axe'],
  instruments: ['piano', 'violin', 'guitar', 'flute', 'drum', 'harp', 'trumpet', 'cello'],
  clothes: ['shirt', 'coat', 'scarf', 'glove', 'sock', 'jacket', 'skirt', 'belt'],
  drinks: ['tea', 'coffee', 'juice', 'milk', 'water', 'cocoa', 'soda', 'cider'],
  metals: ['iron', 'copper', 'silver', 'tin', 'zinc', 'lead', 'nickel', 'platinum'],
  planets: ['Mercury', 'Venus', 'Earth', 'Mars', 'Jupiter', 'Saturn', 'Uranus', 'Neptune'],
}
const COUNTS = { two: 2, three: 3, four: 4 } as const

const joined = (items: readonly string[]): string => `${items.slice(0, -1).join(', ')} and ${items[items.length - 1]}`

const tell = (count: string, kind: string, items: readonly string[]): Material => ({
  key: joined(items),
  sentences: [`${capitalised(count)} ${kind} are {}.`, 'You could take {}.', 'I would name {}.'],
  details: [
    `You asked me for ${count} ${kind}.`,
    `There are many ${kind} to choose from.`,
    `I picked ${count} that most people know.`,
  ],
  last: 'They are {}.',
  steps: items,
  gist: null,
})

export const list: Family = {
  name: 'list',
  weight: 1.7,
  draft: (random): Draft => {
    const kind = pick(random, Object.keys(KINDS))
    const count = pick(random, ['two', 'three', 'three', 'four'] as const)
    const members = KINDS[kind]!
    const rivals = Object.entries(KINDS).flatMap(([name, words]) => (name === kind ? [] : words))
    const items = sample(random, members, COUNTS[count]).sort((a, b) => members.indexOf(a) - members.indexOf(b))
    const spoiled = [...items]
    spoiled[spoiled.length - 1] = pick(random, rivals)
    return {
      question: pick(random, [
        `Name ${count} ${kind}.`,
        `List ${count} ${kind}.`,
        `Give me ${count} ${kind}.`,
        `Tell me ${count} ${kind}.`,
        `What are ${count} ${kind}?`,
        `Can you name ${count} ${kind}?`,
        `Which ${count} ${kind} can you think of?`,
      ]),
      expect: { kind: 'members', count: COUNTS[count], members, rivals },
      right: tell(count, kind, items),
      wrong: tell(count, kind, spoiled),
    }
  },
}
