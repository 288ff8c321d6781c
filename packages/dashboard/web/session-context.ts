/** The browser's session, for pages that show texts or act. */
import { createContext } from 'preact'
import type { Session } from './api.ts'

export const SessionContext = createContext<Session | null>(null)
