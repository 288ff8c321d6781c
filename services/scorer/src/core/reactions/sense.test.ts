import { deepEqual, equal, notDeepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { hashPair, hashText } from './hash.ts'
import { senseFeatures, type Origin, type Said } from './sense.ts'
import { tokensOf } from './text.ts'

const said = (text: string, origins: Readonly<Record<string, Origin>> = {}): Said[] =>
  tokensOf(text).map((token) => ({
    ...token,
    hash: hashText(token.norm),
    origin: token.kind === 'sign' ? 'sign' : (origins[token.norm] ?? 'common'),
  }))
const REQUEST = tokensOf('How many legs does a spider have?')
const ANSWER = tokensOf('A spider has 8 legs.')
const of = (text: string, origins?: Readonly<Record<string, Origin>>, answer = ANSWER): Set<number> =>
  senseFeatures(said(text, origins), REQUEST, answer)
const negated = (word: string): number => hashPair(hashText('not', 43), hashText(word))
const named = (name: string): number => hashText(name, 41)

test('a negation reaches four words, and no further than a sign', () => {
  const features = of('not one two three four five')
  for (const word of ['one', 'two', 'three', 'four']) ok(features.has(negated(word)), word)
  equal(features.has(negated('five')), false)
  equal(of('not one, two').has(negated('two')), false)
  equal(of('one two').has(negated('one')), false)
})

test('a number near that of the answer is told from one far from it and from the same', () => {
  ok(of('I count 10', { '10': 'new' }).has(named('values:1:1:true:false')))
  ok(of('I count 80', { '80': 'new' }).has(named('values:1:1:false:false')))
  ok(of('I count 8', { '8': 'answer' }).has(named('same value:true:false')))
})

test('a negation before a word of the answer is told from one before a new word', () => {
  notDeepEqual(of('not eight', { eight: 'answer' }), of('not eight', { eight: 'new' }))
})

test('the same words after an action and after a fact differ; without words there is no feature', () => {
  notDeepEqual(of('hm', {}, tokensOf('I added a spider with 8 legs.')), of('hm'))
  deepEqual(of(''), new Set())
})
