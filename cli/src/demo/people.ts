/**
 * What the simulated people of the demo say: data only. Whoever writes it has read neither the scorer's hints and rows
 * nor the corpus of the tiny model; tests hold them apart (models/tiny/recipe/apart.test.ts).
 */
export type Person = {
  /** The request's field `user`. */
  requestUser: string
  /** The system message. */
  system: string
  /** Replies to an answer without the wanted style. */
  complaints: readonly string[]
  thanks: readonly string[]
}

const THANKS = [
  'Yes, exactly like that, thank you.',
  'Thanks, that is just how I like it.',
  'Perfect, cheers.',
  'Great, this works for me.',
  'Thank you, very good.',
  'That is what I was after, thanks!',
  'Lovely, thanks a lot.',
  'Super, thank you.',
  'Wonderful, that helps me.',
  'Nice one, thanks.',
  'Brilliant, many thanks.',
  'Good, that is clear now, thanks.',
]

export const PEOPLE: Readonly<Record<'student' | 'ta' | 'teacher', Person>> = {
  student: {
    requestUser: 'Alex',
    system: 'You are helping Alex, a student.',
    thanks: THANKS,
    complaints: [
      'Could you write this without all the formatting?',
      'I just want ordinary sentences, no bold or numbering.',
      'That looks like a chatbot wrote it, plain text please.',
      'Please drop the markdown.',
      'Can you leave the lists and stars away?',
      'The formatting is distracting, write it normally.',
      'I cannot hand that in, take the bold and the boxes out.',
      'Simple text is enough, no boxes or bullet points.',
      'Why all the asterisks and numbers? Plain words would do.',
      'Rewrite that as a normal sentence, please.',
    ],
  },
  ta: {
    requestUser: 'Sam',
    system: 'You are helping Sam, a teaching assistant.',
    thanks: THANKS,
    complaints: [
      'That is too short for my notes, please elaborate.',
      'Can you go into more detail?',
      'I need a longer explanation than that.',
      'Please spell out the reasoning, a few more sentences.',
      'Too brief, expand on it.',
      'My students need a fuller answer.',
      'Could you say more about how you got there?',
      'This is not enough, write a more detailed answer.',
      'Walk me through it at more length, please.',
      'One line is not enough, explain it thoroughly.',
    ],
  },
  teacher: {
    requestUser: 'Kim',
    system: 'You are helping Kim, a teacher.',
    thanks: THANKS,
    complaints: [
      'That sounds rather cold, could you be friendlier?',
      'Please put a bit more warmth into it.',
      'Could you be more encouraging?',
      'A kinder tone would be nice for my class.',
      'You come across as unfriendly, say it nicer.',
      'My pupils need some encouragement, please sound warmer.',
      'That was a little harsh, be kind.',
      'Can you make it more cheerful?',
      'It feels robotic, add a friendly word.',
      'I would prefer a warmer voice.',
    ],
  },
}

/** Replies to an answer whose content is incorrect. */
export const WRONG: readonly string[] = [
  'No, that is not right, have another look.',
  'I do not think that is correct.',
  'That cannot be true, please check it.',
  'Hm, this is wrong.',
  'You got that wrong, try it again.',
  'The result is incorrect.',
]
