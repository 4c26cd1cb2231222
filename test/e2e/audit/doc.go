// Package audit counts what an API server was asked, by whom and how it answered, from its audit
// log. These counts are exact, where a clock on a busy machine is not.
//
// It must not know which requests are good ones.
package audit
