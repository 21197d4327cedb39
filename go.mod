module weir

go 1.26.8
