// Package audit counts the requests to an API server by user, kind and status code, from its audit
// log. The counts are exact, unlike times on a busy machine.
//
// It must not judge the requests.
package audit
