import { timestamp } from 'drizzle-orm/pg-core'

/** `timestamptz` to the millisecond, as text on the way in. */
export const time = () => timestamp({ withTimezone: true, precision: 3, mode: 'string' })
