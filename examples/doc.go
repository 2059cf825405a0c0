// Package examples holds the runnable programs of Snowshed, one per folder.
package examples
