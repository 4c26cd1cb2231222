package verdict

// Reasons about the condition Unused of claims.
const (
	ClaimUseTracked   Reason = "ClaimUseTracked"
	ClaimUseUntracked Reason = "ClaimUseUntracked"
)

var unusedInfos = map[Reason]Info{
	ClaimUseTracked: silent("The condition Unused of the claim says whether a pod refers to it, and since when.",
		"Nothing to do."),
	ClaimUseUntracked: silent("The condition Unused is not maintained for the claim: it is not bound, or it is being deleted.",
		"Nothing to do."),
}
