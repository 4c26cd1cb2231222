// Package staging remembers which volume is staged where on this node.
//
// It decides only the content of a record: the backend knows which volumes are
// really staged (backend.Stager.Staged). Records exist because that cannot answer two
// questions of the CSI spec after a restart: with which capability was this
// volume staged (NodeStageVolume: ALREADY_EXISTS), and at which path.
//
// A record is written before the backend begins and removed after it undid
// everything. So a crash in between leaves a record of something half made,
// which the next stage, unstage or delete clears away, and never something
// staged without a record.
//
// It must not know how volumes are staged.
package staging
