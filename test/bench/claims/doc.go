// Package claims has contenders give claims their volumes on one API server, one after the other:
// the stock volume controllers and ours, each with the same provisioner and a driver that takes no
// time; ours and the provisioner in one process; and as floors a bare client that makes nothing but
// the writes that no provisioner can avoid, for all, and for the provisioner beside the stock
// controllers. Our provisioner is compared with these three times: beside them as they
// are shipped, with 20 requests a second; beside them without limits, as everywhere else, where
// both have more to do than the API server can; and started when they have asked for everything,
// where each shows how fast it is. It tells what each asked of the API server and of the driver,
// which is exact and the same on every machine, and how fast it was, which is not, and is printed
// also as a part of the floor.
//
// With -present it measures instead what the roles need for volumes that are there, and with
// -failover how long claims wait when the leader of two provisioners ends.
//
// It fails if a claim did not get its volume, or if a volume was left over.
package claims
