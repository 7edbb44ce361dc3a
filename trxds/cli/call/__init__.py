"""`trxds call`: a method called from the shell, by the message types that server reflection or files describe."""
