import { timestamp } from '../drizzle.ts'

/** `timestamptz` with millisecond precision, inserted as text. */
export const time = () => timestamp({ withTimezone: true, precision: 3, mode: 'string' })
