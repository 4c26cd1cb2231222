// Package life derives the life of one volume from what a record or a dump has of its objects:
// phases, each cut into intervals of which one party is at work or something is waited for, on one
// lane per party.
//
//  1. A fact is what an object's fields say at a time, such as "the claim is bound". A mark is the
//     time at which a fact appeared or disappeared: the time of the change in a record, else the
//     time that the object itself names, such as a creation time, a condition's or that of a
//     managed fields entry.
//  2. The marks on the path of a phase cut it into intervals. An interval has the lane of the mark
//     that ends it.
//  3. Why it lasted is what [explain.Cluster.Explain] says of the cluster at that time. A record
//     has the cluster of each time, a dump only the last one.
//  4. Calls to the driver that are known lie on the driver's lane, and cut the intervals once more.
//
// An [Index] finds the changes of an object and the objects that name it. It is extended by new
// changes, so that a program that follows a cluster keeps one, and the lives of each time read a few
// objects of many.
//
// What neither a mark nor an explanation tells is an interval of the state [Unknown]. The package
// has no rules about causes; it reads no clock and calls no client.
package life
