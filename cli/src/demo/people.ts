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

export const PEOPLE: Readonly<Record<'student' | 'ta' | 'teacher', Person>> = {
  student: {
    requestUser: 'Ilmari',
    system: 'The person writing to you is Ilmari, a first-year history student.',
    complaints: [
      'Can I get that without the list?',
      'Nobody I know puts boxes around their answers.',
      'My tutor will think a robot wrote it with those stars.',
      'No bullets or numbers, please, only ordinary prose.',
      "It's right, I guess, but why is it so decorated?",
      'Stop making words bold!',
      'Could you write that the way a person would, in plain text?',
      "I can't hand in something that has boxes and bold everywhere.",
      'The layout is too fancy for me, simple text would be better.',
    ],
    thanks: [
      'Thanks, nice and plain.',
      'Cool, no clutter this time.',
      "That's what I was after, cheers.",
      'Good, simple text at last.',
      'Lovely, thank you.',
    ],
  },
  ta: {
    requestUser: 'Zubaida',
    system: 'Zubaida, a teaching assistant in a college maths course, is asking.',
    complaints: [
      'That is too short, please explain how you got it.',
      'You gave me a result but no reason.',
      'Could you write a few more sentences about this?',
      "My students will ask why, and this doesn't tell them.",
      'A bare answer is no help to me.',
      'I was hoping for something a little more detailed.',
      'Come on, one line is hardly an explanation.',
      'Would you mind spelling out the reasoning in full sentences?',
      'Twenty words at the very least, please, not three.',
      "I can't show this in class without some justification.",
      'Please say more, this leaves out all the thinking.',
    ],
    thanks: [
      'Thank you, that explains it well.',
      'Good, now I can follow the reasoning.',
      'That is the detail I needed.',
      "Much better, I'll share it with my group.",
      'Right, that covers the why.',
      'Excellent, a proper answer.',
      'Thanks for taking the time to explain.',
    ],
  },
  teacher: {
    requestUser: 'Oswin',
    system: 'Today you assist Oswin, a third-grade teacher.',
    complaints: [
      'That sounds rather cold to me.',
      'Could you say it in a friendlier way, please?',
      'My pupils need encouragement, and there is none here.',
      "It's correct, but there is no warmth in it at all.",
      'Please be a bit gentler and more cheerful.',
      "I'd never talk to a child in such a dry tone.",
      'Why so stiff? Be nice about it!',
      "This feels distant, as if you didn't care who is asking.",
    ],
    thanks: [
      'Oh, how kind, thank you!',
      'That made me smile.',
      'Wonderful, so much warmer.',
      'My class will love that.',
      'What a friendly answer, thanks!',
      "Now that's the spirit.",
      'Thank you, that felt encouraging.',
      'Lovely tone, just right.',
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
