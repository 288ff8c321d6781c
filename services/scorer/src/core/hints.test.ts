import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GENERAL_WORDINGS, hintFor, hintKind, usableHint, VALUE_WORDINGS, WORDINGS } from './hints.ts'
import { WISHES } from './reactions/model.ts'

const KEYS = Array.from({ length: 400 }, (_, i) => `turn-${i}`)

test('every wording is usable: one to three sentences without a negation, at least six for each wish', () => {
  for (const wordings of [...Object.values(WORDINGS), VALUE_WORDINGS]) {
    assert.ok(new Set(wordings).size >= 6)
    for (const wording of wordings)
      assert.equal(usableHint(wording.replaceAll('…', 'Canberra')), wording.replaceAll('…', 'Canberra'))
  }
})

test('no wording belongs to two wishes', () => {
  const all = Object.values(WORDINGS).flat()
  assert.equal(new Set(all).size, all.length)
})

test('the turn decides the wording: the same turn gives the same, and all are used', () => {
  for (const wish of WISHES) {
    const hints = KEYS.map((key) => hintFor(wish, '**4**', '5', key))
    assert.deepEqual(
      hints,
      KEYS.map((key) => hintFor(wish, '**4**', '5', key)),
    )
    if (wish === 'other' || wish === 'undo') assert.deepEqual([...new Set(hints)], [null])
    else assert.ok(new Set(hints).size >= 6, wish)
  }
})

test('a general model has wordings of its own where the set names the wish, and those of tiny elsewhere', () => {
  for (const [kind, wordings] of Object.entries(GENERAL_WORDINGS))
    for (const wording of wordings) {
      assert.equal(usableHint(wording), wording)
      assert.equal(hintKind(wording), kind)
    }
  const told = (wish: 'shorter' | 'longer' | 'plainer') =>
    new Set<string | null>(KEYS.map((key) => hintFor(wish, '- one\n- two', null, key, 'general')))
  assert.deepEqual(told('shorter'), new Set(GENERAL_WORDINGS.shorter))
  assert.deepEqual(told('plainer'), new Set(GENERAL_WORDINGS.unformatted))
  assert.deepEqual(told('longer'), new Set(WORDINGS.longer))
})

test('plainer is about the form of an answer that has one, else about its words', () => {
  for (const key of KEYS.slice(0, 20)) {
    assert.ok(WORDINGS.unformatted.includes(hintFor('plainer', '- one\n- two', null, key)!))
    assert.ok(WORDINGS.simpler.includes(hintFor('plainer', 'Entropy is a state function.', null, key)!))
  }
})

test('a value is quoted as it stands, up to 60 characters, also with signs of replacement patterns', () => {
  assert.ok(hintFor('fix_value', '', "$& $1 $'", 't')?.includes("$& $1 $'"))
  assert.ok(hintFor('fix_value', '', 'x'.repeat(60), 't'))
  assert.equal(hintFor('fix_value', '', 'x'.repeat(61), 't'), null)
  assert.equal(hintFor('fix_value', '', null, 't'), null)
})

test('the hint of a judging model is used if it is one line of one to three sentences', () => {
  assert.equal(usableHint('  Answer in one\nplain paragraph. '), 'Answer in one plain paragraph.')
  assert.equal(usableHint('Avoid lists and bold text.'), 'Avoid lists and bold text.')
  assert.equal(usableHint('One. Two two. Three three. Four four.'), null)
  assert.equal(usableHint(3), null)
})
