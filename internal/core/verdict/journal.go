package verdict

// JournalFull says that the journal of CreateVolume requests takes no further entry.
const JournalFull Reason = "JournalFull"

var journalInfos = map[Reason]Info{
	JournalFull: failedClaim("The journal of CreateVolume requests has no room for another entry, so the driver is not asked for a volume: a call without an entry could leak one. Thousands of requests are unresolved.",
		"The metrics purser_journal_bytes and purser_uncertain_volumes. Is the driver running, and what does it return? Claims continue by themselves when other claims have their volumes. Deleting claims whose requests fail helps."),
}
