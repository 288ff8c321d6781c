import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reactionModel } from '../../shell/weights.ts'
import { hashText } from './hash.ts'
import { isSingleIdeograph, valueIn } from './value.ts'

const common = (hash: number): boolean => reactionModel().commonWords.has(hash)
const of = (user: string, answer = 'The capital is Sydney.', request = 'What is the capital of Australia?') =>
  valueIn({ user, answer, request }, common)

test('the value of a correction is the number or name that the answer does not hold', () => {
  assert.equal(of("No, it's Canberra."), 'Canberra')
  assert.equal(of('Canberra is the capital, not Melbourne.'), 'Canberra')
  assert.equal(of('The right answer is 1,025.50.', 'It is 1,000.'), '1,025.50')
  assert.equal(of('it should be 12.69, not 12.96', '15% is 12.96.'), '12.69')
  assert.equal(of('-4 surely', 'It is 4.'), null)
  assert.equal(of('It is 78 °C.', 'It is 98 °C.'), '78 °C')
  assert.equal(of('I meant New Zealand'), 'New Zealand')
  assert.equal(of('5, 2, 9', 'Sorted: 2, 5, 9.'), '5, 2, 9')
  assert.equal(of('2, 5, 9', 'Sorted: 2, 5, 9.'), null)
})

test('what names no value, and what is too long to tell, has none', () => {
  assert.equal(of('That is wrong.'), null)
  assert.equal(of('Sydney.'), null)
  assert.equal(of(''), null)
  assert.equal(of(`${'and '.repeat(40)}Canberra`), null)
  assert.equal(of(`It is ${'Canberra'.repeat(8)}.`), null)
})

test('a word that is common in reactions is no value', () => {
  assert.ok(common(hashText('wrong')))
  assert.equal(of('this is Wrong', 'x'), 'Wrong', 'a name in the middle of a sentence is')
})

test('a word and a number that a comma or a full stop separates are two values, of which the last one counts', () => {
  assert.equal(of('Zahlendreher, 1.141 m.', 'Er ist 1.411 m hoch.', 'Wie hoch ist der Berg?'), '1.141')
  assert.equal(of('transposed. 1.141', 'It is 1.411.'), '1.141')
  assert.equal(of('1.141, Zugspitze', 'Er ist hoch.'), 'Zugspitze')
  assert.equal(of('It is Canberra, Queanbeyan'), 'Canberra, Queanbeyan', 'two words are one list')
  assert.equal(of('It is room 12', 'It is room 21.'), '12')
})

test('a single ideograph is told from a value of several', () => {
  assert.deepEqual(['撤', 'ー', '十四', '14', 'a', ''].map(isSingleIdeograph), [true, true, false, false, false, false])
})
