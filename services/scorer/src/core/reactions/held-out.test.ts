/**
 * Precision and recall of the judge on sentences that are not in its training data; the last test holds that. Whoever
 * adds one of them to the data replaces it here. Each is said after REQUEST and ANSWER.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readData } from '../../../reactions/recipe/data.ts'
import { reactionModel } from '../../shell/weights.ts'
import { WORDINGS } from '../hints.ts'
import { hintOfWords, judgeReaction } from './judge.ts'

type Worded = keyof typeof WORDINGS

const REQUEST = 'How many legs does a spider have?'
const ANSWER = '- Spiders are **arachnids**.\n- They have 8 legs.'

const GOOD: readonly string[] = [
  'thx!!',
  'Yes, eight, thank you kindly.',
  'Right you are.',
  'You hit the nail on the head.',
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
  'I am impressed by this.',
  'Good work. Next one: how many wings does a bee have?',
  'Yes!! That is it.',
  'A very satisfying answer.',
  'Vielen Dank, super!',
  'Muchas gracias.',
  '谢谢，很好！',
  'I am glad you explained it in such detail.',
]

const BAD: readonly (readonly [string, Worded | null])[] = [
  ['hey, lose the dashes please', 'unformatted'],
  ['What is it with you and bullet points?', 'unformatted'],
  ['I would be happier with one ordinary sentence.', 'unformatted'],
  ['Kindly refrain from making lists.', 'unformatted'],
  ['Could you write it out as a normal paragraph?', 'unformatted'],
  ['The bold letters jump out at me, stop that.', 'unformatted'],
  ['Please no markdown, my display shows it raw.', 'unformatted'],
  ['It is only one fact, it does not need a list.', 'unformatted'],
  ['I get a bunch of stars around the words, please remove them.', 'unformatted'],
  ['Not as a list, as a sentence.', 'unformatted'],
  ['Do not make it look like a presentation.', 'unformatted'],
  ['Enough with the bullets already!', 'unformatted'],
  ['Simple words in a simple line, that is all I ask.', 'unformatted'],
  ['You formatted it again, I asked for plain text.', 'unformatted'],
  ['That is a very meagre answer.', 'longer'],
  ['Can you tell me a bit more about why?', 'longer'],
  ['You could say so much more about that.', 'longer'],
  ['I need this to be at least two dozen words long.', 'longer'],
  ['Please give a proper explanation with your answer.', 'longer'],
  ['My teacher will not accept such a brief answer.', 'longer'],
  ['hmm can u make it longer', 'longer'],
  ['Please spell it out in several sentences.', 'longer'],
  ['That is not much of an answer.', 'longer'],
  ['Could you give some background too?', 'longer'],
  ['Please use more words than that.', 'longer'],
  ['I was expecting a paragraph, not a line.', 'longer'],
  ['It would help if you explained yourself.', 'longer'],
  ['Would you mind elaborating?', 'longer'],
  ['The answer is correct but too thin to learn from.', 'longer'],
  ['You lost me after the first page, be concise.', 'shorter'],
  ['Way too long.', 'shorter'],
  ['Just say the number.', 'shorter'],
  ['Too many words for one number!', 'shorter'],
  ['Next time make it short, ok?', 'shorter'],
  ['I did not ask for a lecture.', 'shorter'],
  ['You sound bored.', 'warmer'],
  ['Could you put a bit of sunshine into it?', 'warmer'],
  ['It reads like a tax form.', 'warmer'],
  ['I could use a friendly word today.', 'warmer'],
  ['Please be gentler with us beginners.', 'warmer'],
  ['Why so grim?', 'warmer'],
  ['Would you talk to a child like that? Be kind.', 'warmer'],
  ['A bit of encouragement would do wonders.', 'warmer'],
  ['Please sound like you are happy to help.', 'warmer'],
  ['That is correct, but your manner is rather frosty.', 'warmer'],
  ['I miss some warmth in your words.', 'warmer'],
  ['You are not very nice, are you?', 'warmer'],
  ['can u be a bit sweeter pls', 'warmer'],
  ['Too clinical for my taste.', 'warmer'],
  ['No, spiders have 10 legs.', null],
  ["It is 6, isn't it?", null],
  ["That can't be, count again.", null],
  ['I am afraid that is incorrect.', null],
  ['You have it the wrong way round.', null],
  ['I doubt that very much.', null],
  ['Not true!', null],
  ['The right number is 10.', null],
  ['Hmm, 8? I think it should be 10.', null],
  ['Please double-check.', null],
  ['I cannot follow you.', null],
  ['That is confusing.', null],
  ['In plain English, please?', null],
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
  ['Thanks, I suppose, but could you be friendlier?', 'warmer'],
  ['It is right. Now once more in prose.', 'unformatted'],
  ['Okay, but please explain more.', 'longer'],
  ['Good, now the same without bullets.', 'unformatted'],
  ['Great, although a little long.', 'shorter'],
  ['Zu kurz, bitte ausführlicher.', 'longer'],
  ["Sans listes, s'il te plaît.", 'unformatted'],
  ['Eso está mal.', null],
  ['不对，请再检查', null],
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
  judgeReaction(
    reactionModel(),
    { turn: user, request: REQUEST, answer: ANSWER, calls: false, next: { user, tools: '' } },
    { movedOn: null },
  ).value

const CASES = [
  ...GOOD.map((text) => [text, 1] as const),
  ...BAD.map(([text]) => [text, -1] as const),
  ...NEITHER.map((text) => [text, null] as const),
]

test('held-out sentences: precision at least 0.92, recall at least 0.65, sign errors at most 0.02', (t) => {
  const opinions = CASES.filter(([text]) => said(text) !== null)
  const right = opinions.filter(([text, value]) => said(text) === value).length
  const signs = opinions.filter(([text, value]) => value !== null && said(text) === -value).length
  const precision = right / opinions.length
  const recall = right / (GOOD.length + BAD.length)
  t.diagnostic(
    `${CASES.length} sentences: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}, sign errors ${signs}`,
  )
  assert.ok(precision >= 0.92, `precision ${precision}`)
  assert.ok(recall >= 0.65, `recall ${recall}`)
  assert.ok(signs / CASES.length <= 0.02, `${signs} sign errors`)
})

test('held-out wishes: of the hints at least 0.85 are what was wished', (t) => {
  const hints = BAD.flatMap(([text, wish]) => {
    const hint = hintOfWords(reactionModel(), text, { turn: text, request: REQUEST, answer: ANSWER })
    return wish === null || hint === null ? [] : [WORDINGS[wish].includes(hint)]
  })
  const right = hints.filter(Boolean).length
  t.diagnostic(`${right} of ${hints.length} hints, of ${BAD.filter(([, wish]) => wish !== null).length} wishes`)
  assert.ok(hints.length > 0 && right / hints.length >= 0.85, `${right} of ${hints.length}`)
})

test('no held-out sentence is in the training data', () => {
  const rows = new Set(readData().rows.map(({ next }) => next.user.trim().toLowerCase()))
  const known = CASES.map(([text]) => text).filter((text) => rows.has(text.trim().toLowerCase()))
  assert.deepEqual(known, [])
})
