/**
 * Three simulated users, after the protocol of the second OpenClaw-RL paper at small scale: a student who dislikes bold
 * text, numbered lists and boxed answers; a teaching assistant who wants at least 20 words; a teacher who wants a warm
 * tone. What they say is in people.ts, which the scorer and the corpus do not use.
 */
import { isPlain, isWarm, isWordy } from '../../../models/tiny/recipe/style.ts'
import { PEOPLE, type Person } from './people.ts'

export { WRONG } from './people.ts'

export type User = Person & {
  /** The role, which figures and tables show. */
  name: string
  /** Whether an answer has the style that the user wants. */
  satisfied(answer: string): boolean
}

export const USERS: readonly User[] = [
  { name: 'student', satisfied: isPlain, ...PEOPLE.student },
  { name: 'ta', satisfied: isWordy, ...PEOPLE.ta },
  { name: 'teacher', satisfied: isWarm, ...PEOPLE.teacher },
]
