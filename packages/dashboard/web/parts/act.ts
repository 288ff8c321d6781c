/** The button of an action. Where the session may not, it is disabled and says which scope it needs. */
import { html, type Children, type View } from '../html.ts'

/** Id of the text of the page that says what a session needs. */
export const NEEDS = 'needs-admin'

type ActProps = { may: boolean; act: () => void; small?: boolean; children?: Children }

export const Act = ({ may, act, small = false, children }: ActProps): View =>
  html`<button class=${small ? 'small' : ''} disabled=${!may} onClick=${act}
    title=${may ? undefined : 'Needs the scope admin'} aria-describedby=${may ? undefined : NEEDS}>${children}</button>`
