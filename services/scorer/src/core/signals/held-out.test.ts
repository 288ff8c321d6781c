/**
 * Precision and recall of the rules on sentences that they were not written for.
 * What people say after an answer, to measure the rules with. Written apart from the lists and not used to
 * write them; whoever tunes the lists on a sentence from here replaces it with a new one.
 * Each sentence is said after REQUEST and ANSWER.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Complaint } from './complaints.ts'
import { judgeBySignals, readSignals } from './signals.ts'

const REQUEST = 'What is 7 plus 6?'
const ANSWER = '**13** is what you get when you add them.'

const GOOD: readonly string[] = [
  'Ta, that was quick!', 'Oh nice, that is clear to me now.', 'Thank you very much for the explanation.', 'Brilliant. And what is 8 plus 5?', 'You are a star.', 'That is precisely it!', 'Sweet, ta very much.', 'This reads really well.',
  'Now that is more like it.', 'Spot on, as always.', 'Wonderful answer, I can use that in class.', 'Aha, makes total sense.', 'This is so much easier to read, thanks!', 'I am very pleased with this one.', 'Great, no further wishes.', 'Yes! Just the way I like it.',
  'Correct, well done!', 'How kind of you, thank you!', 'Thank you for keeping it plain.', 'Lovely, that made me smile.', 'That worked a treat.', 'Superb work, my friend.', 'Good. Next: what is the capital of Spain?', 'This is what I call a good answer.',
  'Thanks, now name three birds.', 'Yep, that is right.', 'Really useful, cheers.', 'I could not have put it better.', 'Not bad at all!', 'That helped me a lot.', 'Exactly as requested.', 'Awesome 🎉', 'Thanks a bunch, that is all I needed to know.', 'Much obliged!',
  'You have been most helpful.', 'Perfect length, thank you.', 'What a friendly reply, thank you!', 'Glad there are no bullets this time.', 'I appreciate the detail.', 'Merci beaucoup, c\'est parfait.',
]

const BAD: readonly (readonly [string, Complaint | null])[] = [
  ['Could you leave out the bold type?', 'formatted'], ['I find the double stars distracting.', 'formatted'], ['Ordinary sentences would do, thanks.', 'formatted'], ['All those bullets give me a headache.', 'formatted'], ['Please give it to me as simple text.', 'formatted'], ['Do we really need the list?', 'formatted'],
  ['I asked for the answer, not for a box around it.', 'formatted'], ['Skip the fancy layout, would you?', 'formatted'], ['My screen reader chokes on those asterisks.', 'formatted'], ['Please do not number things.', 'formatted'], ['Write it the way you would in a letter, with no markup.', 'formatted'], ['Again with the numbered steps...', 'formatted'],
  ['That is rather thin. Could you say some more?', 'short'], ['I was hoping for a longer reply.', 'short'], ['Two dozen words or more, please.', 'short'], ['You need to explain how you got there.', 'short'], ['That is hardly an explanation.', 'short'], ['One word? Come on.', 'short'],
  ['Please elaborate.', 'short'], ['Can you give me the long version?', 'short'], ['More context would be good.', 'short'], ['Your answer needs more substance before I can grade it.', 'short'], ['Please write no fewer than twenty words.', 'short'], ['Try again, but in several sentences.', 'short'], ['So short? I need something I can hand in.', 'short'],
  ['Way too much text for such a simple question.', 'long'], ['Could you be a bit briefer?', 'long'], ['I only needed the number.', 'long'], ['Please get to the point.', 'long'], ['Shorter, please.', 'long'], ['You do go on a bit, just the result will do.', 'long'],
  ['You sound like a vending machine.', 'cold'], ['A friendlier tone would be nice.', 'cold'], ['Where is the warmth?', 'cold'], ['A kind word would not hurt.', 'cold'], ['That came across as a little cold.', 'cold'], ['Could you say it more kindly?', 'cold'],
  ['My pupils need some encouragement, you know.', 'cold'], ['Please be a little more cheerful with me.', 'cold'], ['So impersonal!', 'cold'], ['I would like you to sound happier.', 'cold'], ['Try to sound as if you cared.', 'cold'], ['It is correct, but a bit stiff.', 'cold'],
  ['No, it is 14.', 'wrong'], ['That is not correct, the answer is 14.', 'wrong'], ['I think you made a mistake there.', 'wrong'], ['Hm, that should be 14.', 'wrong'], ['Wrong!', 'wrong'], ['Are you sure about that?', 'wrong'], ['Check your sums, please.', 'wrong'], ['Nope. Try once more.', 'wrong'], ['Sorry, but 14 is the right answer.', 'wrong'],
  ['I do not get it at all.', 'unclear'], ['Could you put that in simpler terms?', 'unclear'], ['What is that supposed to mean?', 'unclear'],
  ['That is not what I was asking.', null], ['You did not answer my question.', null], ['What is 7 plus 6?', null], ['I said: what is 7 plus 6?', null], ['Not good enough.', null], ['I do not like this answer.', null], ['Please rewrite it.', null], ['Terrible.', null], ['Let us try this again.', null], ['You can do better than that.', null], ['This is no help to me.', null],
  ['Thanks, but that is far too brief.', 'short'], ['Nice try, but no.', null], ['Right answer, wrong tone. Be gentle.', 'cold'], ['Good, except for all the bold.', 'formatted'], ['Bitte etwas freundlicher.', 'cold'], ['C\'est faux.', 'wrong'], ['Demasiado corto.', 'short'], ['太长了，简短一点', 'long'],
]

const NEITHER: readonly string[] = [
  'What is 20 minus 4?', 'Name three kinds of trees.', 'How many days are there in a leap year?', 'Write a short poem about autumn.', 'And the capital of Norway?', 'Can you list four vegetables?', 'I have two cats and a dog.', 'Sort these numbers: 9, 2, 5.', 'Who wrote Hamlet?', 'My name is Ada.',
  'Ok.', 'Next question: what colour is a ripe lemon?', 'Give me a numbered list of the planets.', 'Why is the sky blue?', 'Translate "good morning" into German.', 'Tell me a long story about a dragon.', 'What does the word friendly mean?', 'Is it colder in Oslo or in Rome?', 'Please open the file notes.txt.',
  'How do I make text bold in HTML?', 'What is the opposite of wrong?', 'I am going out now.', 'Which of these is warmer, 5 or 9 degrees?', 'Let us talk about music.', 'Can you name a good book?', 'Thanks in advance for your next answer: what is 3 plus 3?', 'What is the shortest month?', 'Never mind.', 'Find the error in this code: x = 1 +', 'How long is the Nile?',
]

const said = (user: string) => judgeBySignals({ request: REQUEST, answer: ANSWER, calls: false, next: { user, tools: '' } }, { movedOn: null }).value

test('held-out sentences: precision at least 0.9, recall at least 0.8', (t) => {
  const cases = [...GOOD.map((text) => [text, 1] as const), ...BAD.map(([text]) => [text, -1] as const), ...NEITHER.map((text) => [text, null] as const)]
  const opinions = cases.filter(([text]) => said(text) !== null)
  const right = cases.filter(([text, value]) => value !== null && said(text) === value)
  const precision = right.length / opinions.length
  const recall = right.length / (GOOD.length + BAD.length)
  t.diagnostic(`${cases.length} sentences: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`)
  assert.ok(precision >= 0.9, `precision ${precision}`)
  assert.ok(recall >= 0.8, `recall ${recall}`)
})

test('held-out complaints: what is missed is named in at least 0.8', (t) => {
  const named = BAD.filter(([, complaint]) => complaint !== null)
  const right = named.filter(([text, complaint]) => complaint !== null && readSignals(text, { request: REQUEST, answer: ANSWER }).complaints.has(complaint))
  t.diagnostic(`${right.length} of ${named.length}`)
  assert.ok(right.length / named.length >= 0.8)
})

test('the right answer is taken from a correction', () => {
  const hint = (user: string): string | null => judgeBySignals({ request: REQUEST, answer: ANSWER, calls: false, next: { user, tools: '' } }, { movedOn: null }).hint
  assert.equal(hint('No, it is 14.'), 'The right answer is 14.')
  assert.equal(hint('That is not correct, the answer is 14.'), 'The right answer is 14.')
})
