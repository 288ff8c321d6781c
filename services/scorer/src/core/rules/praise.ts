/** Ways in which people say that an answer was right for them. `thanks` alone may be thanks in advance. */

export const THANKS =
  /\b(?:thank(?:s|you| you)?|ta|cheers|much obliged|(?<!would (?:\w+ )?)(?:appreciat\w+|grateful|be grateful))\b|🙏/u

const SUPER =
  '(?:perfect(?:ly|ion)?|excellent\\w*|awesome|amazing(?:ly)?|wonderful(?:ly)?|brilliant(?:ly)?|fantastic|superb|splendid|marvel\\w+|terrific|outstanding|delight\\w*|beautiful\\w*|fabulous|stellar|magnificent|impress(?:ive|ed)|phenomenal|exceptional|flawless\\w*|impeccable|gorgeous|lovely|great|exquisite|charming|ideal(?:ly)?|sublime|wow|top notch|first class|first rate|a\\+|10\\/10|ten out of ten|five stars|gold star)'
const GOOD =
  '(?:good|great|right|correct|better|helpful|useful|clear(?:er)?|fine|cool|neat|sweet|ideal|pleasant|handy|kind|warm|friendly|nice(?:r)?|accurate|true|informative|thorough|interesting|enough|best|it$|comforting|thoughtful|readable|satisf\\w+|easy to (?:read|follow|understand)|fun|refreshing|spot|on point|the one|reassuring|encouraging|cheering|fit|suits me|the way)'

export const PRAISE: readonly { weight: number; pattern: RegExp }[] = [
  { weight: 2, pattern: new RegExp(`\\b${SUPER}\\b`, 'u') },
  {
    weight: 2,
    pattern: new RegExp(
      `\\b(?:that|this|it|these|now|answer|reply|much|far|way|so much|even|looks|reads|feels|sounds)(?: \\w+)? (?:is|was|looks?|sounds?|reads?|feels?|are)? ?(?:\\w+ ){0,2}?${GOOD}`,
      'u',
    ),
  },
  {
    weight: 2,
    pattern:
      /\b(?:lov(?:e|ed|ing|es)|ador(?:e|ed|ing)|enjoy(?:ed)?) (?:it|this|that|these|how|the|your|every|seeing|reading)\b|\bi (?:really |do |quite |rather )?(?:like|liked) (?:it|that|this|how|the way|your|the|these|them)\b|\blove\b$/u,
  },
  {
    weight: 2,
    pattern:
      /\bexactly\b|\bspot[- ]on\b|\bbang on\b|\bnail(?:ed|ing) it\b|\bbingo\b|\bbravo\b|\bkudos\b|\bhoo?ray\b|\byay\b|\bwoo ?hoo\b|\bhurrah\b|\bhats off\b|\bthumbs up\b|\bhigh five\b|\bprops\b|\bchef ?'?s kiss\b/u,
  },
  {
    weight: 2,
    pattern:
      /\b(?:just|precisely|all|totally|everything) (?:what|right|like|how|the (?:way|thing|ticket)|as i)\b|\bwhat i (?:\w+ )?(?:needed|need|wanted|want|was (?:looking|hoping|after)|asked for|had in mind|hoped for|meant|like)\b|\b(?:somewhat|sort of|thing|answer|one|what|reply|way) (?:an? )?(?:\w+ )?(?:that )?i (?:was|am|had been) (?:after|looking for|hoping for)\b|\bmore like it\b|\bhow i (?:like|want|wanted) it\b|\bmy (?:kind|sort) of\b|\bthe ticket\b/u,
  },
  {
    weight: 2,
    pattern:
      /\bwell (?:done|put|said|explained|written|phrased|played|answered)\b|\b(?:good|great|nice|lovely|fine|super|solid|neat|clever|smart|stellar|fab|sound) (?:job|work|one|answer|stuff|reply|explanation|response|going|point|tip|thinking|touch|style|try|tone|effort|summary|choice)\b|\bkeep (?:it up|doing|answering|up)\b|\bway to go\b|\b(?:full|top) marks\b|\bnothing to add\b|\bwill do (?:nicely|fine|well|perfectly)\b|^works$|^what an? (?:\w+ )?(?:kind|lovely|great|nice|good|sweet|friendly|wonderful|thoughtful|clear|warm)\b|^how (?:kind|nice|sweet|lovely|thoughtful|friendly)\b|\bmore (?:of this|like this)\b|\blike this (?:please|from)\b/u,
  },
  {
    weight: 2,
    pattern:
      /\b(?:helpful|useful|handy)\b|\b(?:big|great|huge|real) help\b|\b(?:helps|helped)\b|\b(?:that|this|it|which) (?:\w+ )?(?:works|worked|will do|does it|did it|did the trick|does the trick|hits the spot|solves|solved|answers|answered|settles|clears|cleared|makes (?:\w+ )?(?:sense|my day|me (?:smile|happy))|made (?:\w+ )?(?:sense|my day|me (?:smile|happy|feel))|checks out|explains|cheers me|cheered me|warmed|suits|fits)\b|\bmakes (?:\w+ )?sense\b|\breads? (?:\w+ )?(?:well|nicely|easily|smoothly)\b|\bworks (?:for me|great|well|perfectly|nicely)\b|\bwarms my heart\b/u,
  },
  {
    weight: 2,
    pattern:
      /\bhappy (?:with|about|now)\b|\bpleas(?:ed|ing)\b|\bthrilled\b|\bglad\b|\bsatisfied\b|\bi am (?:\w+ )?happy\b|\bmade my day\b|\byou (?:are|were|have been) (?:\w+ )?(?:the best|great|a (?:star|life ?saver|legend|gem|genius|hero|champ|treasure|wizard|good)|amazing|awesome|right|so kind|very kind|kind|too kind|smart|clever|good|doing)\b|\blife ?saver\b|\blegend\b|\byou rock\b|\byou (?:got|did) it\b|\bno notes\b/u,
  },
  {
    weight: 2,
    pattern:
      /\b(?:i|now i|ah,? i|oh,? i) (?:\w+ )?(?:understand|see|get) (?:it|that|now|why|how|what)\b|\bnow (?:i|it) (?:\w+ )?(?:understand|see|get|clicks)\b|\ball clear\b|\bclear(?:er)? now\b|\bcrystal clear\b|\bgot it\b|\bgood to know\b|\bthat is (?:it|the one|right|correct|true)\b|^(?:yes|yep|yeah|yup|indeed|quite|absolutely|definitely)?,? ?(?:that is |that was |this is )?(?:\w+ )?(?:correct|right|true|accurate)$|\bmuch (?:better|nicer|clearer|improved|friendlier|warmer)\b|\bbig improvement\b/u,
  },
  { weight: 2, pattern: /👍|❤|🧡|💛|💚|💙|💜|😊|😀|😃|😄|😁|🙂|☺|🎉|👏|💯|🥰|😍|🤩|✅|🙌|😇|💪|👌|🌟|⭐|✨|🫶|🤗|💖/u },
  {
    weight: 1,
    pattern:
      /\b(?:nice|good|cool|neat|sweet|better|wicked|solid|super|smashing|grand|swell|fab|ace|sure thing|correct|right on|sounds good|fair enough|noted)\b|:-?\)|:D|<3|\^\^/u,
  },
  {
    weight: 0.5,
    pattern: /^(?:ok|okay|k|fine|alright|all right|yes|yep|yeah|sure|i see|understood|right|mhm|aha|ah)\b/u,
  },
]

/** Within three words before it, praise becomes its opposite. */
export const NEGATED =
  /\b(?:not|never|hardly|barely|no|neither|nor|without|far from|anything but|less than|stop being|rarely|un)(?: \S+){0,3} ?$/u
/** What it would be like, not what it is. */
export const HYPOTHETICAL =
  /\b(?:would|could|should|might|may|will|can|if|to|please|be|make|wish|want|need|prefer|hop(?:e|ing)|try|not|try(?:ing)? to|as)(?: \S+){0,3} ?$/u
/** Praise for the lack of something names what a complaint would name. */
export const PRAISED_LACK =
  /\b(?:thank(?:s|you| you)?|appreciate|love|like|glad|happy|nice) (?:you |it )?(?:for (?:not |the )?\w+|that you|how you|the way you|when you)|\b(?:finally|at last|hooray|yay|thank(?:s|you| you)?|glad|love|like|appreciate|happy|great|perfect|nice|good|lovely|better|pleased|relieved|delighted)\b[^.]{0,40}?\b(?:no|without|not|dropp\w+|less|fewer|stopp\w+|left out|leaving out|removing|removed|skipp\w+|free of|minus|instead of|rather than|avoid\w+)\b/u
