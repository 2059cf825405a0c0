module github.com/snowshed-go/snowshed/examples

go 1.26.0

require github.com/snowshed-go/snowshed v0.0.0

replace github.com/snowshed-go/snowshed => ../
