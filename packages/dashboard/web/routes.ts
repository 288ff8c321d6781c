/** The pages: a new one is a file in pages/ and a line here. Addresses are fragments, so that one file serves all. */
import type { View } from './html.ts'
import type { PageProps } from './page.ts'
import { ComparePage } from './pages/compare.ts'
import { HealthPage } from './pages/health.ts'
import { LearningPage } from './pages/learning.ts'
import { NowPage } from './pages/now.ts'
import { SessionPage } from './pages/session.ts'
import { SessionsPage } from './pages/sessions.ts'
import { TalkPage } from './pages/talk.ts'
import { TurnPage } from './pages/turn.ts'
import { VersionPage } from './pages/version.ts'
import { VersionsPage } from './pages/versions.ts'

/** `nav`: its name in the navigation; absent: it is reached from another page. */
type Route = { pattern: RegExp; path: string; nav?: string; page: (props: PageProps) => View }

export const ROUTES: readonly Route[] = [
  { pattern: /^\/$/, path: '/', nav: 'Now', page: NowPage },
  { pattern: /^\/versions$/, path: '/versions', nav: 'Versions', page: VersionsPage },
  { pattern: /^\/versions\/(\d+)$/, path: '/versions', page: VersionPage },
  { pattern: /^\/sessions$/, path: '/sessions', nav: 'Sessions', page: SessionsPage },
  { pattern: /^\/sessions\/([^/]+)$/, path: '/sessions', page: SessionPage },
  { pattern: /^\/turns\/([^/]+)$/, path: '/sessions', page: TurnPage },
  { pattern: /^\/compare$/, path: '/compare', nav: 'Compare', page: ComparePage },
  { pattern: /^\/learning$/, path: '/learning', nav: 'Learning', page: LearningPage },
  { pattern: /^\/health$/, path: '/health', nav: 'Health', page: HealthPage },
  { pattern: /^\/talk$/, path: '/talk', nav: 'Talk', page: TalkPage },
]
