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

const REQUEST = 'How many legs does a spider have?'
const ANSWER = '- Spiders are **arachnids**.\n- They have 8 legs.'

const GOOD: readonly string[] = [
  'thx!!',
  'Yes, eight, thank you kindly.',
  'Right you are.',
  'You nailed it.',
  'Cool, cool.',
  'Now I understand, great.',
  'That answers it, cheers mate.',
  'My daughter loved this answer!',
  'Oh how lovely of you.',
  'Short and sweet, I like it.',
  'Perfect. How many does a beetle have?',
  'That is what I was looking for.',
  'So helpful!',
  'Ok that is good.',
  'This is way better than the last one.',
  'Thank you for the nice explanation!',
  'Great tone, keep it like this.',
  'I am really grateful for your patience.',
  'good bot',
  'This made me laugh, thanks.',
  'Very clear, no questions left.',
  'Precisely what I needed.',
  'Hooray, plain text at last!',
  'Beautifully put.',
  'You have been a great help today.',
  'Finally a full answer, thanks.',
  'I like your friendly way of putting things.',
  'Smashing, ta.',
  'Nice and simple!',
  'Looks right to me.',
  'Love the warmth.',
  'Thanks so much, have a good day!',
  'Impressive.',
  'Good work. Next one: how many wings does a bee have?',
  'Yes!! That is it.',
  'A very satisfying answer.',
  'Vielen Dank, super!',
  'Muchas gracias.',
  '谢谢，很好！',
  'I am glad you explained it in such detail.',
]

const BAD: readonly (readonly [string, Complaint | null])[] = [
  ['hey, lose the dashes please', 'formatted'],
  ['What is it with you and bullet points?', 'formatted'],
  ['I would be happier with one ordinary sentence.', 'formatted'],
  ['Kindly refrain from making lists.', 'formatted'],
  ['Could you write it out as a normal paragraph?', 'formatted'],
  ['The bold letters jump out at me, stop that.', 'formatted'],
  ['Please no markdown, my display shows it raw.', 'formatted'],
  ['It is only one fact, it does not need a list.', 'formatted'],
  ['I get a bunch of stars around the words, please remove them.', 'formatted'],
  ['Not as a list, as a sentence.', 'formatted'],
  ['Do not make it look like a presentation.', 'formatted'],
  ['Enough with the bullets already!', 'formatted'],
  ['Simple words in a simple line, that is all I ask.', 'formatted'],
  ['You formatted it again, I asked for plain text.', 'formatted'],
  ['That is a very meagre answer.', 'short'],
  ['Can you tell me a bit more about why?', 'short'],
  ['You could say so much more about that.', 'short'],
  ['I need this to be at least two dozen words long.', 'short'],
  ['Please give a proper explanation with your answer.', 'short'],
  ['My teacher will not accept such a brief answer.', 'short'],
  ['hmm can u make it longer', 'short'],
  ['Please spell it out in several sentences.', 'short'],
  ['That is not much of an answer.', 'short'],
  ['Could you give some background too?', 'short'],
  ['Please use more words than that.', 'short'],
  ['I was expecting a paragraph, not a line.', 'short'],
  ['It would help if you explained yourself.', 'short'],
  ['Would you mind elaborating?', 'short'],
  ['The answer is correct but too thin to learn from.', 'short'],
  ['You lost me after the first page, be concise.', 'long'],
  ['Way too long.', 'long'],
  ['Just say the number.', 'long'],
  ['Too many words for one number!', 'long'],
  ['Next time make it short, ok?', 'long'],
  ['I did not ask for a lecture.', 'long'],
  ['You sound bored.', 'cold'],
  ['Could you put a bit of sunshine into it?', 'cold'],
  ['It reads like a tax form.', 'cold'],
  ['I could use a friendly word today.', 'cold'],
  ['Please be gentler with us beginners.', 'cold'],
  ['Why so grim?', 'cold'],
  ['Would you talk to a child like that? Be kind.', 'cold'],
  ['A bit of encouragement would do wonders.', 'cold'],
  ['Please sound like you are happy to help.', 'cold'],
  ['That is correct, but your manner is rather frosty.', 'cold'],
  ['I miss some warmth in your words.', 'cold'],
  ['You are not very nice, are you?', 'cold'],
  ['can u be a bit sweeter pls', 'cold'],
  ['Too clinical for my taste.', 'cold'],
  ['No, spiders have 10 legs.', 'wrong'],
  ["It is 6, isn't it?", 'wrong'],
  ["That can't be, count again.", 'wrong'],
  ['I am afraid that is incorrect.', 'wrong'],
  ['You got it wrong.', 'wrong'],
  ['I doubt that very much.', 'wrong'],
  ['Not true!', 'wrong'],
  ['The right number is 10.', 'wrong'],
  ['Hmm, 8? I think it should be 10.', 'wrong'],
  ['Please double-check.', 'wrong'],
  ['I cannot follow you.', 'unclear'],
  ['That is confusing.', 'unclear'],
  ['In plain English, please?', 'unclear'],
  ['I asked about spiders, please stay on topic.', null],
  ['how many legs does a spider have', null],
  ['Once more: how many legs does a spider have?', null],
  ['This is not what I had in mind.', null],
  ['That is useless.', null],
  ['Not quite what I need.', null],
  ['Ugh, this is worse than before.', null],
  ['Do it again, better.', null],
  ['You keep ignoring what I say.', null],
  ['I am not happy with this.', null],
  ['Please revise.', null],
  ['Sorry, I do not like it.', null],
  ['Thanks, I suppose, but could you be friendlier?', 'cold'],
  ['It is right. Now once more in prose.', 'formatted'],
  ['Okay, but please explain more.', 'short'],
  ['Good, now the same without bullets.', 'formatted'],
  ['Great, although a little long.', 'long'],
  ['Zu kurz, bitte ausführlicher.', 'short'],
  ["Sans listes, s'il te plaît.", 'formatted'],
  ['Eso está mal.', 'wrong'],
  ['不对，请再检查', 'wrong'],
]

const NEITHER: readonly string[] = [
  'How many legs does an ant have?',
  'What do spiders eat?',
  'Tell me a fact about whales.',
  'Where do polar bears live?',
  'Could you list three insects?',
  'Which animal is the fastest?',
  'Write a warm welcome letter to a new neighbour.',
  'What is 12 divided by 4?',
  'I have a spider at home.',
  'We are doing a project on animals.',
  'Please summarise the article below in two sentences: The Nile is a river in Africa.',
  'What does incorrect mean?',
  'How do I write a bulleted list in HTML?',
  'Make a table of the planets and their moons.',
  'Explain gravity to me in detail.',
  'Is it right to eat meat?',
  'What is the friendliest city in the world?',
  'Ok, and beetles?',
  'Hm.',
  'Run the script again with debug on.',
  'Why do people like bold colours?',
  'How long is a short story?',
  'Who was wrong, Newton or Einstein?',
  'Please name two cold countries.',
  'Let me think.',
  'Could you draft a polite email to my boss?',
  'What is the best way to say thank you in Japanese?',
  'Continue with the next chapter.',
  'How can I be nicer to my brother?',
  'Do cats like milk?',
]

const said = (user: string) =>
  judgeBySignals({ request: REQUEST, answer: ANSWER, calls: false, next: { user, tools: '' } }, { movedOn: null }).value

test('held-out sentences: precision at least 0.9, recall at least 0.8', (t) => {
  const cases = [
    ...GOOD.map((text) => [text, 1] as const),
    ...BAD.map(([text]) => [text, -1] as const),
    ...NEITHER.map((text) => [text, null] as const),
  ]
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
  const right = named.filter(
    ([text, complaint]) =>
      complaint !== null && readSignals(text, { request: REQUEST, answer: ANSWER }).complaints.has(complaint),
  )
  t.diagnostic(`${right.length} of ${named.length}`)
  assert.ok(right.length / named.length >= 0.8)
})

test('the right answer is taken from a correction', () => {
  const hint = (user: string): string | null =>
    judgeBySignals({ request: REQUEST, answer: ANSWER, calls: false, next: { user, tools: '' } }, { movedOn: null })
      .hint
  assert.equal(hint('No, it is 10.'), 'The right answer is 10.')
  assert.equal(hint('That is not correct, the answer is 10.'), 'The right answer is 10.')
  assert.equal(hint('Sorry, but ten is the right answer.'), 'The right answer is ten.')
  assert.equal(hint('It should have been Oslo, not Bergen.'), 'The right answer is Oslo.')
  assert.equal(hint('That is wrong.'), null)
  assert.equal(hint('It should be longer.'), 'Answer in full detail with several sentences.')
})
