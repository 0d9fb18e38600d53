/*
Package nodeset forms node sets and chooses one for a job. A node set is a group of nodes with a common attribute, such
as a switch or a CPU speed.

	requests of all sources --Resolve--> Setting      the effective request of flags, variables, class, cluster

The package knows nothing about jobs or clusters. A node is a value with a capacity and a speed, and a request is a
string. Node sets are not stored. They are formed for each request, from the nodes that meet all other requirements.
*/
package nodeset
